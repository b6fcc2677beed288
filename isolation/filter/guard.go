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

// targetOfAny is for ends of ptp: the host keeps what neighbours say for each link, and asks on that of an attachment for its addresses alone.
var targetOfAny match

// guardChains adds the chains of what a guarded end may send in IP. A packet is accepted for what is known of it, never for what is not
// found in it: the header of the transport may be missing in a fragment, and behind a header that is not read, as that of authentication is not. The fragments after
// the first are accepted, because without the first they are nothing.
func (t *table) guardChains(is func(*ip) match, isTarget match) {
	guard := func(v *ip, comment string, parts ...match) netfilter.Rule {
		return rule(comment, slices.Concat(is(v), slices.Concat(parts...)), netfilter.KeyIn(own+v.suffix, true, t.in, v.source()), accept)
	}
	t.chain("guard4", "what IPv4 an end may send",
		guard(&ip4, "its own", protocol(expr.CmpOpNeq, unix.IPPROTO_UDP), protocol(expr.CmpOpNeq, unix.IPPROTO_IGMP)),
		guard(&ip4, "its own, but no DHCP answers", protocol(expr.CmpOpEq, unix.IPPROTO_UDP), header(0, expr.CmpOpNeq, dhcp4...)),
		guard(&ip4, "its own, but no queries for listeners", protocol(expr.CmpOpEq, unix.IPPROTO_IGMP), header(0, expr.CmpOpNeq, 0x11)),
		guard(&ip4, "further fragments", match{load(expr.PayloadBaseNetworkHeader, 6, 2)}, masked([]byte{0x1f, 0xff}, expr.CmpOpNeq)),
		rule("forged IPv4", goTo(forged)))
	isFrom := match{load(expr.PayloadBaseNetworkHeader, ip6.from, 16), compare(expr.CmpOpEq, make([]byte, 16)...)}
	fromNone := func(comment string, parts ...match) netfilter.Rule {
		return rule(comment, slices.Concat(is(&ip6), slices.Concat(parts...)), isFrom, accept)
	}
	direct := match{load(expr.PayloadBaseNetworkHeader, 6, 1), compare(expr.CmpOpEq, ip6.icmp)} // without extension headers
	t.chain("guard6", "what IPv6 an end may send",
		guard(&ip6, "its own", protocol(expr.CmpOpNeq, unix.IPPROTO_UDP), protocol(expr.CmpOpNeq, ip6.icmp), protocol(expr.CmpOpNeq, unix.IPPROTO_AH)),
		guard(&ip6, "its own, but no DHCP answers", protocol(expr.CmpOpEq, unix.IPPROTO_UDP), header(0, expr.CmpOpNeq, dhcp6...)),
		guard(&ip6, "errors", types6(1, 4)),
		guard(&ip6, "echo", types6(128, 129)),
		guard(&ip6, "what it listens to", types6(listenerReport, listenerDone)),
		guard(&ip6, "what it listens to", types6(listenerReport2, listenerReport2)),
		guard(&ip6, "solicitations of routers", types6(routerSolicitation, routerSolicitation)),
		guard(&ip6, "solicitations of neighbours", types6(neighbourSolicitation, neighbourSolicitation)),
		guard(&ip6, "itself as a neighbour", direct, types6(neighbourAdvertisement, neighbourAdvertisement), isTarget),
		fromNone("probes for its own", direct, types6(neighbourSolicitation, neighbourSolicitation), isTarget),
		fromNone("what it listens to", types6(listenerReport2, listenerReport2)),
		fromNone("solicitations of routers", types6(routerSolicitation, routerSolicitation)),
		guard(&ip6, "further fragments", match{&expr.Exthdr{DestRegister: netfilter.Register, Type: 44, Offset: 2, Len: 2, Op: expr.ExthdrOpIpv6}}, masked([]byte{0xff, 0xf8}, expr.CmpOpNeq)),
		rule("forged IPv6", goTo(forged)))
}
