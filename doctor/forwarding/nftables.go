// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package forwarding

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
)

// listing is the JSON of nft (libnftables-json(5)).
type listing struct {
	Objects []struct {
		Chain *nftChain `json:"chain"`
		Rule  *nftRule  `json:"rule"`
	} `json:"nftables"`
}

type nftChain struct {
	Family string `json:"family"`
	Table  string `json:"table"`
	Name   string `json:"name"`
	Hook   string `json:"hook"`
	Policy string `json:"policy"`
}

type nftRule struct {
	Chain      string                       `json:"chain"`
	Expression []map[string]json.RawMessage `json:"expr"`
}

// table is one of nftables.
type table struct{ family, name string }

// forwardTables returns the tables with chains of forwarded packets. Those of iptables are left
// out in the families for which its programs list them, and so is that of firewalld, whose zones say more.
func forwardTables(chains []byte, listed map[string]bool) ([]table, error) {
	var l listing
	if err := json.Unmarshal(chains, &l); err != nil {
		return nil, fmt.Errorf("nft -j list chains: %w", err)
	}
	var all []table
	for _, o := range l.Objects {
		if o.Chain == nil || o.Chain.Hook != "forward" {
			continue
		}
		t := table{o.Chain.Family, o.Chain.Table}
		isIPTables := listed[t.family] && t.name == "filter"
		if slices.Contains([]string{"ip", "ip6", "inet"}, t.family) && t.name != "firewalld" && !isIPTables && !slices.Contains(all, t) {
			all = append(all, t)
		}
	}
	return all, nil
}

// parseNftables reads the listing of a table.
func parseNftables(t table, data []byte) (*ruleset, error) {
	var l listing
	if err := json.Unmarshal(data, &l); err != nil {
		return nil, fmt.Errorf("nft -j list table %s %s: %w", t.family, t.name, err)
	}
	s := &ruleset{
		name: "nft table " + t.family + " " + t.name, ipv4: t.family != "ip6", ipv6: t.family != "ip",
		policies: map[string]verdict{}, chains: map[string][]rule{},
	}
	for _, o := range l.Objects {
		if o.Chain != nil && o.Chain.Hook == "forward" {
			s.forward = append(s.forward, o.Chain.Name)
			s.policies[o.Chain.Name] = map[string]verdict{"drop": dropped}[o.Chain.Policy]
		}
		if o.Rule != nil {
			s.chains[o.Rule.Chain] = append(s.chains[o.Rule.Chain], o.Rule.parse())
		}
	}
	s.open = func(subnet netip.Prefix) string {
		rule := fmt.Sprintf("nft insert rule %s %s %s ", t.family, t.name, s.forward[0])
		address := protocolOf(subnet)
		return fmt.Sprintf("%[1]s%[2]s saddr %[3]s accept; %[1]s%[2]s daddr %[3]s ct state established,related accept; %[1]s%[2]s daddr %[3]s ct status dnat accept", rule, address, subnet)
	}
	s.accept = func(subnet netip.Prefix) string {
		protocol := protocolOf(subnet)
		return fmt.Sprintf("nft insert rule %s %s %s %s saddr %s %s daddr %s accept", t.family, t.name, s.forward[0], protocol, subnet, protocol, subnet)
	}
	return s, nil
}

// protocolOf is what nft calls the header of packets of a subnet.
func protocolOf(subnet netip.Prefix) string {
	if subnet.Addr().Is6() {
		return "ip6"
	}
	return "ip"
}

// parse reads the parts of a rule. One that is not known is a condition.
func (n *nftRule) parse() rule {
	r := rule{text: "a rule of the chain " + n.Chain}
	for _, part := range n.Expression {
		for name, value := range part {
			r.part(name, value)
		}
	}
	return r
}

func (r *rule) part(name string, value json.RawMessage) {
	switch name {
	case "counter", "log", "comment":
	case "accept":
		r.verdict = accepted
	case "drop", "reject":
		r.verdict = dropped
	case "return":
		r.verdict = returned
	case "jump", "goto":
		var to struct {
			Target string `json:"target"`
		}
		r.isConditional = r.isConditional || json.Unmarshal(value, &to) != nil
		r.target, r.isGoto = to.Target, name == "goto"
	case "match":
		r.match(value)
	default:
		r.isConditional = true
	}
}

// match reads a condition on the source, the destination or an interface.
func (r *rule) match(value json.RawMessage) {
	var m struct {
		Op   string `json:"op"`
		Left struct {
			Payload struct {
				Field string `json:"field"`
			} `json:"payload"`
			Meta struct {
				Key string `json:"key"`
			} `json:"meta"`
		} `json:"left"`
		Right json.RawMessage `json:"right"`
	}
	if json.Unmarshal(value, &m) != nil || m.Op != "==" {
		r.isConditional = true
		return
	}
	name := ""
	switch isName := json.Unmarshal(m.Right, &name) == nil; {
	case isName && slices.Contains([]string{"iifname", "iif"}, m.Left.Meta.Key):
		r.from = append(r.from, name)
		return
	case isName && slices.Contains([]string{"oifname", "oif"}, m.Left.Meta.Key):
		r.to = append(r.to, name)
		return
	}
	prefixes, ok := prefixesOf(m.Right)
	switch field := m.Left.Payload.Field; {
	case ok && field == "saddr":
		r.sources = prefixes
	case ok && field == "daddr":
		r.destinations = prefixes
	default:
		r.isConditional = true
	}
}

// prefixesOf reads an address, a prefix, or a set of them.
func prefixesOf(data json.RawMessage) ([]netip.Prefix, bool) {
	var address netip.Addr
	if json.Unmarshal(data, &address) == nil && address.IsValid() {
		return []netip.Prefix{netip.PrefixFrom(address, address.BitLen())}, true
	}
	var right struct {
		Prefix struct {
			Addr netip.Addr `json:"addr"`
			Len  int        `json:"len"`
		} `json:"prefix"`
		Set []json.RawMessage `json:"set"`
	}
	if json.Unmarshal(data, &right) != nil {
		return nil, false
	}
	if right.Prefix.Addr.IsValid() {
		return []netip.Prefix{netip.PrefixFrom(right.Prefix.Addr, right.Prefix.Len)}, true
	}
	var all []netip.Prefix
	for _, element := range right.Set {
		prefixes, ok := prefixesOf(element)
		if !ok {
			return nil, false
		}
		all = append(all, prefixes...)
	}
	return all, len(all) > 0
}
