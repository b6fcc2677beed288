// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"context"
	"fmt"
	"net"

	"github.com/containernetworking/plugins/pkg/utils"

	"github.com/allocnet/allocnet/internal/inprocess/links"
	"github.com/allocnet/allocnet/internal/inprocess/rules"
	"github.com/allocnet/allocnet/internal/netfilter"
)

// masquerade is what rules of masquerading are made from.
type masquerade struct {
	// backend is "iptables" or "nftables"; nil means what the host has, iptables first.
	backend *string
	// networks are the addresses of the attachment with their networks' masks.
	networks                     []net.IPNet
	network, ifName, containerID string
}

// add leaves the rules to be added.
func (m masquerade) add(ctx context.Context, all *rules.Set) error {
	switch rules.Backend(ctx, m.backend, all.Kind) {
	case rules.BackendIPTables:
		for _, r := range m.iptables() {
			all.Add(rules.Change{IPTables: r})
		}
	case rules.BackendNFTables:
		all.Add(rules.Change{NFTables: m.nftables()})
	default:
		return fmt.Errorf("unknown ipmasq backend %q", *m.backend)
	}
	return nil
}

// remove leaves the rules to be removed, of both backends: the configuration may have changed
// since ADD.
func (m masquerade) remove(all *rules.Set) {
	for _, r := range m.iptables() {
		all.Add(rules.Change{Remove: true, IPTables: r})
	}
	all.Add(rules.Change{Remove: true, NFTables: m.nftables()})
}

// iptables returns the rules, those of each family by themselves.
func (m masquerade) iptables() []*rules.IPTables {
	chain := utils.FormatChainName(m.network, m.containerID)
	text := utils.FormatComment(m.network, m.containerID)
	comment := []string{"-m", "comment", "--comment", text}
	byFamily := map[netfilter.Family]*rules.IPTables{}
	var all []*rules.IPTables
	for _, network := range m.networks {
		family, multicast := netfilter.IPv4, "224.0.0.0/4"
		if !links.IsIPv4(network.IP) {
			family, multicast = netfilter.IPv6, "ff00::/8"
		}
		r := byFamily[family]
		if r == nil {
			r = &rules.IPTables{Family: family, Table: "nat", Chain: chain, Comment: text}
			byFamily[family] = r
			all = append(all, r)
		}
		r.Add(rules.Rule{Chain: chain, Args: append([]string{"-d", network.String(), "-j", "ACCEPT"}, comment...)})
		r.Add(rules.Rule{Chain: chain, Args: append([]string{"!", "-d", multicast, "-j", "MASQUERADE"}, comment...)})
		r.Add(rules.Rule{Chain: "POSTROUTING", Args: append([]string{"-s", network.IP.String(), "-j", chain}, comment...)})
	}
	return all
}
