// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package filter

import (
	"slices"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/netfilter"
)

// Types of ICMPv6.
const (
	listenerQuery          = 130
	listenerReport         = 131
	listenerDone           = 132
	routerSolicitation     = 133
	neighbourSolicitation  = 135
	neighbourAdvertisement = 136
	redirect               = 137
	listenerReport2        = 143
)

// membershipQuery is the type of IGMP that asks for listeners.
const membershipQuery = 0x11

// arpType is the type of frames with ARP.
const arpType = unix.ETH_P_ARP

// Ports of servers of DHCP.
var dhcp4, dhcp6 = []byte{0, 67}, []byte{2, 35}

// types6 matches types of ICMPv6.
func types6(first, last byte) match {
	isICMP := protocol(expr.CmpOpEq, ip6.icmp)
	if first == last {
		return append(isICMP, header(0, expr.CmpOpEq, first)...)
	}
	return slices.Concat(isICMP, header(0, expr.CmpOpGte, first), header(0, expr.CmpOpLte, last))
}

// guarding is how a table knows what a guarded end may send.
type guarding struct {
	// is matches a version of IP, and own a packet of it with the source of its end.
	is, own func(*ip) match
	// isTarget matches an advertisement about the end. Without it any may be sent: for ends of ptp the host keeps what neighbours say for each link, and asks
	// on that of an attachment for its addresses alone.
	isTarget match
	// through is what a packet meets next that the end may send.
	through match
}

func (g *guarding) rule(v *ip, comment string, parts ...match) netfilter.Rule {
	return rule(comment, g.is(v), slices.Concat(parts...), g.own(v), g.through)
}

// guardRules are the rules of what comes from ends. Most of it is what the first ones let through, with one look at whose it is. What they do not know is looked at by
// the chain guard, if the end is guarded.
func (t *table) guardRules(g *guarding) []netfilter.Rule {
	var rules []netfilter.Rule
	for _, v := range ips {
		t.chain("known"+v.suffix, "what comes with the source of its end", rule("its own", g.is(v), g.own(v), g.through))
	}
	of := func(v *ip, comment string, parts ...match) {
		rules = append(rules, rule(comment, g.is(v), slices.Concat(parts...), jump("known"+v.suffix)))
	}
	of(&ip4, "its own", protocol(expr.CmpOpNeq, unix.IPPROTO_UDP), protocol(expr.CmpOpNeq, unix.IPPROTO_IGMP))
	of(&ip4, "its own, but no DHCP answers", protocol(expr.CmpOpEq, unix.IPPROTO_UDP), header(0, expr.CmpOpNeq, dhcp4...))
	of(&ip6, "its own", protocol(expr.CmpOpNeq, unix.IPPROTO_UDP), protocol(expr.CmpOpNeq, ip6.icmp), protocol(expr.CmpOpNeq, unix.IPPROTO_AH))
	of(&ip6, "its own, but no DHCP answers", protocol(expr.CmpOpEq, unix.IPPROTO_UDP), header(0, expr.CmpOpNeq, dhcp6...))
	return append(rules, rule("guarded ends", netfilter.KeyIn(guarded, true, t.in), goTo("guard")))
}

// mostFrames are the rules that most of what ends of bridges send meets, with one look at whose it is. What they do not know is looked at by the others.
func (t *table) mostFrames() (rules []netfilter.Rule) {
	sourcePort := load(expr.PayloadBaseTransportHeader, 0, 2)
	isNoQuery := &expr.Range{Op: expr.CmpOpNeq, Register: netfilter.Register, FromData: []byte{membershipQuery, 0}, ToData: []byte{membershipQuery, 255}}
	plain := map[*ip]match{ // whatever the protocol is, none of this is a DHCP answer, a query for listeners or neighbour discovery
		&ip4: {sourcePort, compare(expr.CmpOpNeq, dhcp4...), isNoQuery},
		&ip6: append(protocol(expr.CmpOpNeq, ip6.icmp), compare(expr.CmpOpNeq, unix.IPPROTO_AH), sourcePort, compare(expr.CmpOpNeq, dhcp6...)),
	}
	for _, v := range ips {
		t.set(netfilter.KeySet{Name: frames + v.suffix, Key: []netfilter.KeyType{netfilter.LinkName, netfilter.MAC, v.address}, IsMap: true})
		rules = append(rules, rule("its own", v.isFrame(), plain[v], netfilter.KeyVerdict(frames+v.suffix, inLink, sourceMAC, v.source())))
	}
	return rules
}

// guardChains adds the chains of what else a guarded end may send in IP. A packet is let through for what is known of it, never for what is not
// found in it: the header of the transport may be missing in a fragment, and behind a header that is not read, as that of authentication is not. The fragments after
// the first are let through, because without the first they are nothing.
func (t *table) guardChains(g *guarding) {
	t.chain("guard4", "what else of IPv4 an end may send",
		g.rule(&ip4, "its own, but no queries for listeners", protocol(expr.CmpOpEq, unix.IPPROTO_IGMP), header(0, expr.CmpOpNeq, membershipQuery)),
		g.rule(&ip4, "further fragments", match{load(expr.PayloadBaseNetworkHeader, 6, 2)}, masked([]byte{0x1f, 0xff}, expr.CmpOpNeq)),
		rule("forged IPv4", goTo(forged)))
	isFrom := match{load(expr.PayloadBaseNetworkHeader, ip6.from, 16), compare(expr.CmpOpEq, make([]byte, 16)...)}
	fromNone := func(comment string, parts ...match) netfilter.Rule {
		return rule(comment, g.is(&ip6), slices.Concat(parts...), isFrom, g.through)
	}
	direct := match{load(expr.PayloadBaseNetworkHeader, 6, 1), compare(expr.CmpOpEq, ip6.icmp)} // without extension headers
	t.chain("guard6", "what else of IPv6 an end may send",
		g.rule(&ip6, "errors", types6(1, 4)),
		g.rule(&ip6, "echo", types6(128, 129)),
		g.rule(&ip6, "what it listens to", types6(listenerReport, listenerDone)),
		g.rule(&ip6, "what it listens to", types6(listenerReport2, listenerReport2)),
		g.rule(&ip6, "solicitations of routers", types6(routerSolicitation, routerSolicitation)),
		g.rule(&ip6, "solicitations of neighbours", types6(neighbourSolicitation, neighbourSolicitation)),
		g.rule(&ip6, "itself as a neighbour", direct, types6(neighbourAdvertisement, neighbourAdvertisement), g.isTarget),
		fromNone("probes for its own", direct, types6(neighbourSolicitation, neighbourSolicitation), g.isTarget),
		fromNone("what it listens to", types6(listenerReport2, listenerReport2)),
		fromNone("solicitations of routers", types6(routerSolicitation, routerSolicitation)),
		g.rule(&ip6, "further fragments", match{&expr.Exthdr{DestRegister: netfilter.Register, Type: 44, Offset: 2, Len: 2, Op: expr.ExthdrOpIpv6}}, masked([]byte{0xff, 0xf8}, expr.CmpOpNeq)),
		rule("forged IPv6", goTo(forged)))
}
