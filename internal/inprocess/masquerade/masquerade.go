// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package masquerade makes and removes the rules of ipMasq: packets of an attachment that leave its network get the address
// of the host.
package masquerade

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/containernetworking/plugins/pkg/utils"

	"github.com/allocnet/allocnet/internal/inprocess/flows"
	"github.com/allocnet/allocnet/internal/inprocess/links"
	"github.com/allocnet/allocnet/internal/inprocess/plugin"
	"github.com/allocnet/allocnet/internal/inprocess/rules"
	"github.com/allocnet/allocnet/internal/netfilter"
)

// Options are keys of a plugin that masquerades.
type Options struct {
	// Backend is "iptables" or "nftables"; nil means what the host has, iptables first.
	Backend *string
	Egress  Egress
}

// Egress are the addresses that packets leave with, one of each family at most. Without one of a family, packets get that of the
// interface that they leave by.
type Egress []netip.Addr

// of returns the address of the family of another one; it is not valid if there is none.
func (e Egress) of(ip net.IP) netip.Addr {
	for _, address := range e {
		if address.Is4() == links.IsIPv4(ip) {
			return address
		}
	}
	return netip.Addr{}
}

// attachment is what rules of masquerading are made from.
type attachment struct {
	Options

	// networks are the addresses of the attachment with their networks' masks.
	networks                     []net.IPNet
	network, ifName, containerID string
}

// of returns what the rules of the attachment of a call are made from.
func of(c *plugin.Call, options Options, networks []net.IPNet) attachment {
	return attachment{options, networks, c.Network, c.IfName, c.ContainerID}
}

// Add leaves the rules to be added that masquerade the addresses of an attachment, each with the mask of its
// network.
func Add(c *plugin.Call, options Options, networks []net.IPNet) error {
	return of(c, options, networks).add(c.Ctx, &c.Changes.Rules)
}

// Remove leaves the rules to be removed, of both backends: the configuration may have changed since ADD.
func Remove(c *plugin.Call, networks []net.IPNet) {
	m := of(c, Options{}, networks)
	for _, r := range m.iptables() {
		c.Changes.Rules.Add(rules.Change{Remove: true, IPTables: r})
	}
	c.Changes.Rules.Add(rules.Change{Remove: true, NFTables: m.nftables()})
}

// Repair leaves the rules to be added where they are missing, and the flows to be forgotten that began without.
func Repair(c *plugin.Call, options Options, networks []net.IPNet) error {
	m := of(c, options, networks)
	c.Changes.Rules.Translations = append(c.Changes.Rules.Translations, m)
	return m.add(c.Ctx, &c.Changes.Rules)
}

func (m attachment) add(ctx context.Context, all *rules.Set) error {
	switch rules.Backend(ctx, m.Backend, all.Kind) {
	case rules.BackendIPTables:
		for _, r := range m.iptables() {
			all.Add(rules.Change{IPTables: r})
		}
	case rules.BackendNFTables:
		all.Add(rules.Change{NFTables: m.nftables()})
	default:
		return fmt.Errorf("unknown ipmasq backend %q", *m.Backend)
	}
	return nil
}

func (m attachment) iptables() []*rules.IPTables {
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
		target := []string{"!", "-d", multicast, "-j", "MASQUERADE"}
		if egress := m.Egress.of(network.IP); egress.IsValid() {
			target = []string{"!", "-d", multicast, "-j", "SNAT", "--to-source", egress.String()}
		}
		r.Add(rules.Rule{Chain: chain, Args: append(target, comment...)})
		r.Add(rules.Rule{Chain: "POSTROUTING", Args: append([]string{"-s", network.IP.String(), "-j", chain}, comment...)})
	}
	return all
}

// Keys are those of flows from the attachment.
func (m attachment) Keys() []flows.Key {
	var keys []flows.Key
	for _, network := range m.networks {
		source, _ := netip.AddrFromSlice(netfilter.IPBytes(network.IP))
		keys = append(keys, flows.Key{Source: source})
	}
	return keys
}

// Wants tells whether a flow leaves with the address of the attachment and has no answer: who has no
// route to the address cannot answer.
func (m attachment) Wants(f netfilter.Flow, isLocal func(netip.Addr) bool) bool {
	source, destination := f.Original.Source, f.Reply.Source
	if f.Reply.Destination != source || !flows.Begins(f) || destination.IsMulticast() {
		return false
	}
	from := func(network net.IPNet) bool { return network.IP.Equal(source.AsSlice()) }
	inside := func(network net.IPNet) bool { return network.Contains(destination.AsSlice()) }
	return slices.ContainsFunc(m.networks, from) && !slices.ContainsFunc(m.networks, inside) && !isLocal(destination)
}
