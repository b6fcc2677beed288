// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package portmap

import (
	"fmt"
	"net"
	"slices"
	"strconv"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/inprocess/links"
	"github.com/allocnet/allocnet/internal/inprocess/rules"
	"github.com/allocnet/allocnet/internal/netfilter"
)

// Chains of the table of published ports.
const (
	publishedChain = "hostports"
	// hostIPChain is one that older plugins have filled.
	hostIPChain      = "hostip_hostports"
	allHostportChain = "hostports_all"
	hairpinChain     = "masquerading"
)

// hostportTable returns the table of published ports of one family.
func hostportTable(ip net.IP, snat bool) *netfilter.Table {
	table := &netfilter.Table{Family: netfilter.IPv6, Name: "cni_hostport", Comment: "CNI portmap plugin"}
	if links.IsIPv4(ip) {
		table.Family = netfilter.IPv4
	}
	table.Chains = []netfilter.Chain{
		{Name: publishedChain},
		{Name: hostIPChain},
		{Name: allHostportChain, Rules: []netfilter.Rule{
			{Chain: allHostportChain, Exprs: netfilter.Verdict(expr.VerdictJump, hostIPChain)},
			{Chain: allHostportChain, Exprs: netfilter.Verdict(expr.VerdictJump, publishedChain)},
		}},
		hostportEntry("prerouting", nftables.ChainHookPrerouting),
		hostportEntry("output", nftables.ChainHookOutput),
	}
	if snat {
		hook := &netfilter.Hook{Number: nftables.ChainHookPostrouting, Priority: nftables.ChainPriorityNATSource}
		table.Chains = append(table.Chains, netfilter.Chain{Name: hairpinChain, Hook: hook})
	}
	return table
}

// hostportEntry is a base chain that leads packets to this host to the published ports.
func hostportEntry(name string, number *nftables.ChainHook) netfilter.Chain {
	return netfilter.Chain{
		Name:  name,
		Hook:  &netfilter.Hook{Number: number, Priority: nftables.ChainPriorityNATDest},
		Rules: []netfilter.Rule{{Chain: name, Exprs: slices.Concat(netfilter.LocalMatch(), netfilter.Verdict(expr.VerdictJump, allHostportChain))}},
	}
}

// nftablesOf returns the place of the rules of the attachment in one family, without rules.
func (conf *config) nftablesOf(ip net.IP) *rules.NFTables {
	return &rules.NFTables{
		Table:  hostportTable(ip, conf.snat()),
		Chains: []string{publishedChain, hostIPChain, hairpinChain},
		Owns:   func(comment string) bool { return comment == conf.containerID },
	}
}

func (conf *config) nftables(address net.IPNet) (*rules.NFTables, error) {
	r := conf.nftablesOf(address.IP)
	for _, mapping := range conf.RuntimeConfig.PortMappings {
		if !mapping.applies(address.IP) {
			continue
		}
		exprs, err := mapping.nftables(address.IP)
		if err != nil {
			return nil, fmt.Errorf("unable to set up nftables rules for port mappings: %w", err)
		}
		r.Rules = append(r.Rules, netfilter.Rule{Chain: publishedChain, Exprs: exprs, Comment: conf.containerID, Text: mapping.nftablesText(address.IP)})
	}
	if conf.snat() {
		r.Rules = append(r.Rules, conf.hairpin(address.IP)...)
	}
	if n := len(conf.containerID); n > rules.MaxComment && len(r.Rules) > 0 {
		return nil, fmt.Errorf("container ID of %d bytes: nftables has room for %d in the comment of a rule", n, rules.MaxComment)
	}
	return r, nil
}

// hairpin returns the rules for connections to a published port from the address itself, and
// from this host.
func (conf *config) hairpin(ip net.IP) []netfilter.Rule {
	sources := []net.IP{ip}
	if links.IsIPv4(ip) {
		sources = append(sources, net.IPv4(127, 0, 0, 1))
	}
	var all []netfilter.Rule
	for _, source := range sources {
		text := fmt.Sprintf("%[1]s saddr %[2]s %[1]s daddr %[3]s masquerade", netfilter.FamilyOf(ip), source, ip)
		all = append(all, netfilter.Rule{Chain: hairpinChain, Comment: conf.containerID, Text: text, Exprs: slices.Concat(
			netfilter.SourceMatch(expr.CmpOpEq, links.HostNetwork(source)),
			netfilter.DestinationMatch(expr.CmpOpEq, links.HostNetwork(ip)),
			[]expr.Any{&expr.Masq{}},
		)})
	}
	return all
}

// nftablesProtocols are the protocols with ports that nft has a name for.
var nftablesProtocols = map[string]byte{
	"tcp": unix.IPPROTO_TCP, "udp": unix.IPPROTO_UDP, "sctp": unix.IPPROTO_SCTP,
	"dccp": unix.IPPROTO_DCCP, "udplite": unix.IPPROTO_UDPLITE,
}

// nftables returns the expressions that publish a port.
func (m mapping) nftables(target net.IP) ([]expr.Any, error) {
	protocol, ok := nftablesProtocols[m.Protocol]
	if !ok {
		return nil, fmt.Errorf("unknown protocol %q, use one of tcp, udp, sctp", m.Protocol)
	}
	if m.last() > 65535 || m.ContainerPort > 65535 {
		return nil, fmt.Errorf("port %d or %d is out of range, the last one is 65535", m.last(), m.ContainerPort)
	}
	translation := slices.Concat(netfilter.PortMatch(protocol, uint16(m.HostPort)), netfilter.DNAT(target, uint16(m.ContainerPort)))
	if m.isRange() {
		translation = slices.Concat(netfilter.PortRangeMatch(protocol, uint16(m.HostPort), uint16(m.last())), netfilter.DNATAddress(target))
	}
	if !m.bound() {
		return translation, nil
	}
	hostIP := net.ParseIP(m.HostIP)
	if hostIP == nil {
		return nil, fmt.Errorf("host IP %q is not an address", m.HostIP)
	}
	return slices.Concat(netfilter.DestinationMatch(expr.CmpOpEq, links.HostNetwork(hostIP)), translation), nil
}

// nftablesText is what nft prints for the rule that publishes a port.
func (m mapping) nftablesText(target net.IP) string {
	text := fmt.Sprintf("%s dport %d dnat to %s", m.Protocol, m.HostPort, net.JoinHostPort(target.String(), strconv.Itoa(m.ContainerPort)))
	if m.isRange() {
		text = fmt.Sprintf("%s dport %d-%d dnat to %s", m.Protocol, m.HostPort, m.last(), target)
	}
	if m.bound() {
		text = string(netfilter.FamilyOf(target)) + " daddr " + m.HostIP + " " + text
	}
	return text
}
