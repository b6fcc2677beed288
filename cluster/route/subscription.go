// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package route

import (
	"context"
	"net/netip"
	"syscall"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/kernelevents"
)

// groups are what the kernel is asked to tell of.
var groups = []uint{
	unix.RTNLGRP_LINK, unix.RTNLGRP_NEIGH, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR,
	unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE,
}

func (host) watch(ctx context.Context, seen func(event), ended func()) error {
	return kernelevents.Subscription{Protocol: unix.NETLINK_ROUTE, Groups: groups}.Start(ctx, listener(seen, ended))
}

// listener tells of events. Messages that were lost are one event.
func listener(seen func(event), ended func()) kernelevents.Listener {
	return kernelevents.Listener{
		Seen: func(m syscall.NetlinkMessage) {
			if e, ok := eventOf(m); ok {
				seen(e)
			}
		},
		Lost:  func() { seen(event{kind: lostEvent}) },
		Ended: ended,
	}
}

// messages are those that tell of something, with the length of what is before their attributes.
var messages = map[uint16]struct {
	kind   eventKind
	header int
}{
	unix.RTM_NEWLINK: {linkEvent, unix.SizeofIfInfomsg}, unix.RTM_DELLINK: {linkEvent, unix.SizeofIfInfomsg},
	unix.RTM_NEWADDR: {addressEvent, unix.SizeofIfAddrmsg}, unix.RTM_DELADDR: {addressEvent, unix.SizeofIfAddrmsg},
	unix.RTM_NEWROUTE: {routeEvent, unix.SizeofRtMsg}, unix.RTM_DELROUTE: {routeEvent, unix.SizeofRtMsg},
	unix.RTM_NEWNEIGH: {neighbourEvent, unix.SizeofNdMsg}, unix.RTM_DELNEIGH: {neighbourEvent, unix.SizeofNdMsg},
}

// eventOf translates a message. One that cannot be read counts as lost.
func eventOf(m syscall.NetlinkMessage) (event, bool) {
	of, ok := messages[m.Header.Type]
	if !ok {
		return event{}, false
	}
	if len(m.Data) < of.header {
		return event{kind: lostEvent}, true
	}
	attributes := kernelevents.AttributesOf(m.Data[of.header:])
	if attributes == nil {
		return event{kind: lostEvent}, true
	}
	e := event{kind: of.kind}
	switch of.kind {
	case linkEvent:
		e.index, e.name = int(nl.DeserializeIfInfomsg(m.Data).Index), attributes.Text(unix.IFLA_IFNAME)
	case addressEvent:
		e.index = int(nl.DeserializeIfAddrmsg(m.Data).Index)
		own, ok := attributes[unix.IFA_LOCAL]
		if !ok { // there is no peer
			own = attributes[unix.IFA_ADDRESS]
		}
		a := addressOf(own)
		e.prefix = netip.PrefixFrom(a, a.BitLen())
	case routeEvent:
		e.readRoute(nl.DeserializeRtMsg(m.Data), attributes)
		e.gone = m.Header.Type == unix.RTM_DELROUTE
	case neighbourEvent:
		const index = 4 // its offset in struct ndmsg
		e.index = int(int32(nl.NativeEndian().Uint32(m.Data[index:])))
	}
	return e, true
}

func (e *event) readRoute(m *nl.RtMsg, attributes kernelevents.Attributes) {
	_, isMultipath := attributes[unix.RTA_MULTIPATH] // the protocol is that of the first next hop
	e.ours = m.Protocol == Protocol && !isMultipath
	to, ok := attributes[unix.RTA_DST]
	switch {
	case ok:
		e.prefix = netip.PrefixFrom(addressOf(to), int(m.Dst_len))
	case m.Family == unix.AF_INET:
		e.prefix = netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	default:
		e.prefix = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	}
}
