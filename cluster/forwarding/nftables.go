// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package forwarding

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/allocnet/allocnet/isolation"
)

// listing is the JSON of nft (libnftables-json(5)).
type listing struct {
	Objects []struct {
		Chain *nftChain `json:"chain"`
		Rule  *nftRule  `json:"rule"`
		// Flowtable has one interface, or several.
		Flowtable *struct {
			Name string          `json:"name"`
			Dev  json.RawMessage `json:"dev"`
		} `json:"flowtable"`
	} `json:"nftables"`
}

type nftChain struct {
	Family string `json:"family"`
	Table  string `json:"table"`
	Name   string `json:"name"`
	Type   string `json:"type"`
	Hook   string `json:"hook"`
	Prio   int    `json:"prio"`
	Policy string `json:"policy"`
}

type nftRule struct {
	Chain      string                       `json:"chain"`
	Expression []map[string]json.RawMessage `json:"expr"`
}

type table struct{ family, name string }

const bridgeFamily = "bridge"

// isBase tells whether a chain is one that packets enter, and can be dropped in.
func (c *nftChain) isBase() bool { return c.Hook != "" && c.Type != "nat" }

// tablesWith returns the tables with chains of hooks, but for those of isolation, which tells more itself. Those of iptables are left out in
// the families for which its programs list them.
func tablesWith(chains []byte, hooks []string, listed map[string]bool) ([]table, error) {
	var l listing
	if err := json.Unmarshal(chains, &l); err != nil {
		return nil, fmt.Errorf("nft -j list chains: %w", err)
	}
	var all []table
	for _, o := range l.Objects {
		if o.Chain == nil || !o.Chain.isBase() || !slices.Contains(hooks, o.Chain.Hook) {
			continue
		}
		t := table{o.Chain.Family, o.Chain.Table}
		isIPTables := listed[t.family] && slices.Contains([]string{"filter", "raw", "mangle"}, t.name)
		if slices.Contains([]string{"ip", "ip6", "inet", bridgeFamily}, t.family) && t.name != isolation.Table && !isIPTables && !slices.Contains(all, t) {
			all = append(all, t)
		}
	}
	return all, nil
}

func parseNftables(t table, data []byte) (*ruleset, error) {
	var l listing
	if err := json.Unmarshal(data, &l); err != nil {
		return nil, fmt.Errorf("nft -j list table %s %s: %w", t.family, t.name, err)
	}
	s := &ruleset{
		name: "nft table " + t.family + " " + t.name, ipv4: t.family != "ip6", ipv6: t.family != "ip",
		base: map[string][]string{}, policies: map[string]verdict{}, priorities: map[string]int{}, chains: map[string][]rule{}, offloads: map[string][]string{},
		isZones: t.name == "firewalld",
	}
	if t.name == "filter" && t.family != "inet" {
		s.kind = "nft"
	}
	for _, o := range l.Objects {
		if o.Chain != nil {
			s.chains[o.Chain.Name] = append(s.chains[o.Chain.Name], []rule{}...) // also without rules
		}
		if o.Chain != nil && o.Chain.isBase() {
			s.base[o.Chain.Hook] = append(s.base[o.Chain.Hook], o.Chain.Name)
			s.policies[o.Chain.Name], s.priorities[o.Chain.Name] = map[string]verdict{"drop": dropped}[o.Chain.Policy], o.Chain.Prio
		}
		if o.Flowtable != nil {
			s.offloads[o.Flowtable.Name], _ = valuesOf(o.Flowtable.Dev)
		}
		if o.Rule != nil {
			s.chains[o.Rule.Chain] = append(s.chains[o.Rule.Chain], o.Rule.parse())
		}
	}
	s.open = func(chain string, subnet netip.Prefix) string {
		rule := fmt.Sprintf("nft insert rule %s %s %s ", t.family, t.name, chain)
		address := protocolOf(subnet)
		return fmt.Sprintf("%[1]s%[2]s saddr %[3]s accept; %[1]s%[2]s daddr %[3]s ct state established,related accept; %[1]s%[2]s daddr %[3]s ct status dnat accept", rule, address, subnet)
	}
	s.accept = func(chain string, subnet netip.Prefix) string {
		protocol := protocolOf(subnet)
		return fmt.Sprintf("nft insert rule %s %s %s %s saddr %s %s daddr %s accept", t.family, t.name, chain, protocol, subnet, protocol, subnet)
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

// parse reads the parts of a rule. What is behind one that is not known may not be reached.
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
	if r.verdict == anything {
		return
	}
	switch name {
	case "counter", "log", "comment":
	case "notrack":
		r.evades = true
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
		if json.Unmarshal(value, &to) != nil {
			r.verdict = anything
		}
		r.target, r.isGoto = to.Target, name == "goto"
	case "match":
		r.conditions = append(r.conditions, matchOf(value))
	case "limit", "quota", "ct count", "ct helper", "mangle", "flow", "set": // a rule ends where one of them fails
		r.conditions = append(r.conditions, isUnknown)
	default:
		r.verdict = anything
	}
}

// matchOf reads a condition: name and values of what is common, and else that it may be met.
func matchOf(value json.RawMessage) condition {
	var m struct {
		Op   string `json:"op"`
		Left struct {
			Payload struct {
				Tunnel   string `json:"tunnel"`
				Protocol string `json:"protocol"`
				Field    string `json:"field"`
			} `json:"payload"`
			Meta struct {
				Key string `json:"key"`
			} `json:"meta"`
			CT struct {
				Key string `json:"key"`
			} `json:"ct"`
			FIB fib `json:"fib"`
		} `json:"left"`
		Right json.RawMessage `json:"right"`
	}
	if json.Unmarshal(value, &m) != nil {
		return isUnknown
	}
	name, protocol := "meta "+m.Left.Meta.Key, m.Left.Payload.Tunnel+m.Left.Payload.Protocol
	switch {
	case protocol != "":
		name = protocol + " " + m.Left.Payload.Field
	case m.Left.CT.Key != "":
		name = "ct " + m.Left.CT.Key
	}
	if m.Left.FIB.isOfSource() {
		return m.Left.FIB.condition(m.Op, m.Right)
	}
	values, ok := valuesOf(m.Right)
	if m.Left.Payload.Field == "dport" {
		values, ok = portsOf(m.Right)
	}
	c := conditionOf(name, values)
	isList := bytes.HasPrefix(m.Right, []byte("[")) // of bits: one of them, or all
	if !ok || c == nil || m.Op != "in" && isList || !slices.Contains([]string{"==", "!=", "in"}, m.Op) {
		c = isUnknown
	} else if m.Op == "!=" {
		c = not(c)
	}
	if protocol == "" {
		return c
	}
	return func(p *packet) answer { return min(p.has(protocol), c(p)) }
}

// fib is what nft looks up among the routes of the host.
type fib struct {
	Result string   `json:"result"`
	Flags  []string `json:"flags"`
}

// isOfSource is whether it is the route to the source of a packet by the interface from which that comes.
func (f fib) isOfSource() bool {
	return f.Result == "oif" && slices.Contains(f.Flags, "saddr") && slices.Contains(f.Flags, "iif")
}

// condition is whether there is one, or there is none.
func (f fib) condition(op string, right json.RawMessage) condition {
	var exists bool
	if json.Unmarshal(right, &exists) != nil || op != "==" && op != "!=" {
		return isUnknown
	}
	if exists == (op == "==") {
		return comesByItsRoute
	}
	return not(comesByItsRoute)
}

// valuesOf reads a name, an address, a prefix, or several of them.
func valuesOf(data json.RawMessage) ([]string, bool) {
	var text string
	if json.Unmarshal(data, &text) == nil {
		return []string{text}, !strings.HasPrefix(text, "@")
	}
	var right struct {
		Prefix struct {
			Addr string `json:"addr"`
			Len  int    `json:"len"`
		} `json:"prefix"`
		Set []json.RawMessage `json:"set"`
	}
	if json.Unmarshal(data, &right.Set) != nil && json.Unmarshal(data, &right) != nil {
		return nil, false
	}
	if right.Prefix.Addr != "" {
		return []string{fmt.Sprintf("%s/%d", right.Prefix.Addr, right.Prefix.Len)}, true
	}
	var all []string
	for _, element := range right.Set {
		values, ok := valuesOf(element)
		if !ok {
			return nil, false
		}
		all = append(all, values...)
	}
	return all, len(all) > 0
}

// portsOf reads a number, a range, or several of them.
func portsOf(data json.RawMessage) ([]string, bool) {
	var port uint16
	if json.Unmarshal(data, &port) == nil {
		return []string{strconv.Itoa(int(port))}, true
	}
	var right struct {
		Range []uint16          `json:"range"`
		Set   []json.RawMessage `json:"set"`
	}
	if json.Unmarshal(data, &right) != nil {
		return nil, false
	}
	if len(right.Range) == 2 {
		return []string{fmt.Sprintf("%d:%d", right.Range[0], right.Range[1])}, true
	}
	var all []string
	for _, element := range right.Set {
		ports, ok := portsOf(element)
		if !ok {
			return nil, false
		}
		all = append(all, ports...)
	}
	return all, len(all) > 0
}
