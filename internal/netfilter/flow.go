// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netfilter

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/mdlayher/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Flow is one that the kernel tracks. Package vishvananda/netlink does not tell whether it has been
// answered.
type Flow struct {
	// Original are the addresses of its first packet, and Reply those of packets in the other
	// direction: what is translated, these do not share.
	Original, Reply Direction
	Protocol        uint8
	// IsAnswered is whether there have been packets in both directions.
	IsAnswered bool
	// State is that of TCP.
	State uint8
}

// Direction is where packets come from, and where they go. The ports are 0 where the protocol has none.
type Direction struct {
	Source, Destination         netip.Addr
	SourcePort, DestinationPort uint16
}

const seenReply = 1 << 1

func newFlow(message []byte) (f Flow) {
	data := message[min(nfgenmsgSize, len(message)):]
	f.Original, f.Reply = newDirection(valueOf(data, nl.CTA_TUPLE_ORIG)), newDirection(valueOf(data, nl.CTA_TUPLE_REPLY))
	f.Protocol = byteOf(data, nl.CTA_TUPLE_ORIG, nl.CTA_TUPLE_PROTO, nl.CTA_PROTO_NUM)
	f.IsAnswered = numberOf(data, nl.CTA_STATUS)&seenReply != 0
	f.State = byteOf(data, nl.CTA_PROTOINFO, nl.CTA_PROTOINFO_TCP, nl.CTA_PROTOINFO_TCP_STATE)
	return f
}

func newDirection(tuple []byte) (d Direction) {
	for kind, value := range attributes(valueOf(tuple, nl.CTA_TUPLE_IP)) {
		address, _ := netip.AddrFromSlice(value)
		switch kind {
		case nl.CTA_IP_V4_SRC, nl.CTA_IP_V6_SRC:
			d.Source = address
		case nl.CTA_IP_V4_DST, nl.CTA_IP_V6_DST:
			d.Destination = address
		}
	}
	d.SourcePort, d.DestinationPort = portOf(tuple, nl.CTA_PROTO_SRC_PORT), portOf(tuple, nl.CTA_PROTO_DST_PORT)
	return d
}

func portOf(tuple []byte, kind uint16) uint16 {
	if port := valueOf(tuple, nl.CTA_TUPLE_PROTO, kind); len(port) == 2 {
		return binary.BigEndian.Uint16(port)
	}
	return 0
}

func byteOf(data []byte, path ...uint16) uint8 {
	if value := valueOf(data, path...); len(value) == 1 {
		return value[0]
	}
	return 0
}

// ForgetFlows has the kernel forget the flows that addresses have begun or answer. A kernel that does not list flows keeps them.
func (s *Socket) ForgetFlows(of []netip.Addr) error {
	if offloads, err := offloads(s); err == nil && !offloads {
		of = slices.DeleteFunc(slices.Clone(of), func(a netip.Addr) bool { return flushFlows(s, a) == nil })
	}
	return forgetListed(s, of)
}

// Attributes of <linux/netfilter/nfnetlink_conntrack.h> that no package has: which parts of the tuples of a message are those of the flows that it is about.
const (
	ctaFilter           = 25
	ctaFilterOrigFlags  = 1
	ctaFilterReplyFlags = 2
	ctaFilterIPSource   = 1
)

// offloads tells whether the kernel has flowtables: flows in these it does not flush, and does not say so.
func offloads(s *Socket) (has bool, err error) {
	err = s.dump(unix.NFT_MSG_GETFLOWTABLE, "", func([]byte) { has = true })
	return has, err
}

// flushFlows has the kernel look for the flows of an address of IPv4: to list them it locks each of hundreds of thousands of places where there may be one, for
// milliseconds. The error is that of a kernel before 6.10: to it, a message with a part of a tuple is of no flow. Of IPv6 Linux 6.18 flushes those of all other addresses.
func flushFlows(s *Socket, a netip.Addr) error {
	if !a.Is4() {
		return errors.ErrUnsupported
	}
	for tuple, flags := range map[uint16][2]uint32{nl.CTA_TUPLE_ORIG: {ctaFilterIPSource, 0}, nl.CTA_TUPLE_REPLY: {0, ctaFilterIPSource}} {
		b := &Batch{}
		data, err := netlink.MarshalAttributes([]netlink.Attribute{
			b.nested(tuple, b.nested(nl.CTA_TUPLE_IP, netlink.Attribute{Type: nl.CTA_IP_V4_SRC, Data: a.AsSlice()})),
			b.nested(ctaFilter,
				netlink.Attribute{Type: ctaFilterOrigFlags, Data: binary.NativeEndian.AppendUint32(nil, flags[0])},
				netlink.Attribute{Type: ctaFilterReplyFlags, Data: binary.NativeEndian.AppendUint32(nil, flags[1])}),
		})
		if err = errors.Join(err, b.err); err != nil {
			return err
		}
		if _, err := s.Execute(flowMessage(nl.IPCTNL_MSG_CT_DELETE, netlink.Acknowledge, append([]byte{unix.AF_INET, unix.NFNETLINK_V0, 0, 0}, data...))); err != nil {
			return err
		}
	}
	return nil
}

// forgetListed is ForgetEach for these flows.
func forgetListed(s *Socket, of []netip.Addr) error {
	if len(of) == 0 {
		return nil
	}
	found, err := findFlows(s, func(f Flow) bool {
		return slices.Contains(of, f.Original.Source) || slices.Contains(of, f.Reply.Source)
	})
	if err = ignoreUnsupported(err); err == nil {
		err = forget(s, found)
	}
	if err != nil {
		return fmt.Errorf("flows of %v: %w", of, err)
	}
	return nil
}

// ForgetEach has the kernel forget the flows that are wanted: it decides about their next packet as about a first one. To find
// them it goes through all flows of the network namespace. That one has ended meanwhile is no error.
func ForgetEach(ctx context.Context, wanted func(Flow) bool) error {
	s, err := Dial(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	found, err := findFlows(s, wanted)
	if err != nil {
		return fmt.Errorf("list flows: %w", err)
	}
	return forget(s, found)
}

// findFlows returns the messages of the flows that are wanted, which identify them.
func findFlows(s *Socket, wanted func(Flow) bool) (found [][]byte, err error) {
	err = undisturbed(func() error {
		found = nil
		return s.receive(flowMessage(nl.IPCTNL_MSG_CT_GET, netlink.Dump, []byte{unix.AF_UNSPEC, unix.NFNETLINK_V0, 0, 0}), func(flow []byte) bool {
			if wanted(newFlow(flow)) {
				found = append(found, flow)
			}
			return true
		})
	})
	return found, err
}

func forget(s *Socket, flows [][]byte) error {
	for _, flow := range flows {
		if _, err := s.Execute(flowMessage(nl.IPCTNL_MSG_CT_DELETE, netlink.Acknowledge, flow)); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("forget a flow from %s: %w", newFlow(flow).Original.Source, err)
		}
	}
	return nil
}

func flowMessage(kind netlink.HeaderType, flags netlink.HeaderFlags, data []byte) netlink.Message {
	return netlink.Message{Header: netlink.Header{Type: unix.NFNL_SUBSYS_CTNETLINK<<8 | kind, Flags: netlink.Request | flags}, Data: data}
}
