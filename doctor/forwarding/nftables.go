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
		Set   *nftSet   `json:"set"`
		Map   *nftSet   `json:"map"`
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

// nftSet is a set or a map of a table.
type nftSet struct {
	Name     string            `json:"name"`
	Flags    json.RawMessage   `json:"flags"`
	Elements []json.RawMessage `json:"elem"`
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
	if t.name == "filter" && t.family != "inet" {
		s.kind = "nft"
	}
	sets := setsOf(l)
	for _, o := range l.Objects {
		if o.Chain != nil && o.Chain.Hook == "forward" {
			s.forward = append(s.forward, o.Chain.Name)
			s.policies[o.Chain.Name] = map[string]verdict{"drop": dropped}[o.Chain.Policy]
		}
		if o.Rule != nil {
			s.chains[o.Rule.Chain] = append(s.chains[o.Rule.Chain], o.Rule.parse(sets)...)
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
