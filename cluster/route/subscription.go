// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package route

import (
	"context"
	"errors"
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

// eventOf translates a message. One that cannot be read counts as lost.
func eventOf(m syscall.NetlinkMessage) (event, bool) {
	e := event{}
	var err error
	switch m.Header.Type {
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		err = e.readLink(m.Data)
	case unix.RTM_NEWADDR, unix.RTM_DELADDR:
		err = e.readAddress(m.Data)
	case unix.RTM_NEWROUTE, unix.RTM_DELROUTE:
		e.gone = m.Header.Type == unix.RTM_DELROUTE
		err = e.readRoute(m.Data)
	case unix.RTM_NEWNEIGH, unix.RTM_DELNEIGH:
		err = e.readNeighbour(m.Data)
	default:
		return event{}, false
	}
	if err != nil {
		return event{kind: lostEvent}, true
	}
	return e, true
}

var errShort = errors.New("message is too short")

func (e *event) readLink(data []byte) error {
	if len(data) < unix.SizeofIfInfomsg {
		return errShort
	}
	e.kind, e.index = linkEvent, int(nl.DeserializeIfInfomsg(data).Index)
	return each(data[unix.SizeofIfInfomsg:], func(kind uint16, value []byte) {
		if kind == unix.IFLA_IFNAME {
			e.name = unix.ByteSliceToString(value)
		}
	})
}

func (e *event) readAddress(data []byte) error {
	if len(data) < unix.SizeofIfAddrmsg {
		return errShort
	}
	e.kind, e.index = addressEvent, int(nl.DeserializeIfAddrmsg(data).Index)
	return each(data[unix.SizeofIfAddrmsg:], func(kind uint16, value []byte) {
		// IFA_LOCAL is this host's where there is a peer.
		if kind == unix.IFA_LOCAL || kind == unix.IFA_ADDRESS && !e.prefix.IsValid() {
			a := addressOf(value)
			e.prefix = netip.PrefixFrom(a, a.BitLen())
		}
	})
}

func (e *event) readRoute(data []byte) error {
	if len(data) < unix.SizeofRtMsg {
		return errShort
	}
	m := nl.DeserializeRtMsg(data)
	e.kind, e.ours = routeEvent, m.Protocol == Protocol
	if m.Family == unix.AF_INET {
		e.prefix = netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	} else {
		e.prefix = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	}
	return each(data[unix.SizeofRtMsg:], func(kind uint16, value []byte) {
		switch kind {
		case unix.RTA_DST:
			e.prefix = netip.PrefixFrom(addressOf(value), int(m.Dst_len))
		case unix.RTA_MULTIPATH: // the protocol is that of the first next hop
			e.ours = false
		}
	})
}

func (e *event) readNeighbour(data []byte) error {
	if len(data) < unix.SizeofNdMsg {
		return errShort
	}
	const index = 4 // its offset in struct ndmsg
	e.kind, e.index = neighbourEvent, int(int32(nl.NativeEndian().Uint32(data[index:])))
	return nil
}

// each calls do for each attribute.
func each(data []byte, do func(kind uint16, value []byte)) error {
	const header, alignment = unix.SizeofRtAttr, unix.NLMSG_ALIGNTO
	for len(data) >= header {
		length := int(nl.NativeEndian().Uint16(data))
		if length < header || length > len(data) {
			return errShort
		}
		do(nl.NativeEndian().Uint16(data[2:])&^uint16(unix.NLA_F_NESTED|unix.NLA_F_NET_BYTEORDER), data[header:length])
		data = data[min(len(data), (length+alignment-1)/alignment*alignment):]
	}
	return nil
}
