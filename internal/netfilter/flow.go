// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netfilter

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Messages and attributes of the kernel's tracking of flows (linux/netfilter/nfnetlink_conntrack.h).
const (
	getFlow, deleteFlow = 1, 2

	originalTuple, replyTuple = 1, 2
	tupleAddresses            = 1
	filterAttribute           = 25
	bySource                  = 1
)

// ForgetFlows has the kernel forget the flows that an address has begun or answers: it decides about their next packet as about a first one.
func (s *Socket) ForgetFlows(a netip.Addr) error {
	found, err := s.flowsFrom(a)
	if err != nil {
		return fmt.Errorf("list flows of %s: %w", a, err)
	}
	for _, flow := range found {
		if _, err := s.Execute(flowMessage(deleteFlow, netlink.Acknowledge, flow)); err != nil && !errors.Is(err, unix.ENOENT) { // it has ended
			return fmt.Errorf("forget a flow of %s: %w", a, err)
		}
	}
	return nil
}

// flowsFrom returns the flows that have an address as the source of a direction. The kernel leaves out others, but not for IPv6: there it
// leaves out those of the address instead (seen with 6.18). Before 5.8 it leaves out none.
func (s *Socket) flowsFrom(a netip.Addr) (found [][]byte, err error) {
	family, source, filters := byte(unix.AF_INET6), uint16(3), [][]netlink.Attribute{nil}
	if a.Is4() {
		family, source, filters = unix.AF_INET, 1, [][]netlink.Attribute{flowFilter(a, originalTuple), flowFilter(a, replyTuple)}
	}
	isFrom := func(flow []byte, tuple uint16) bool {
		return bytes.Equal(valueOf(flow[min(nfgenmsgSize, len(flow)):], tuple, tupleAddresses, source), a.AsSlice())
	}
	for _, filter := range filters {
		data, err := netlink.MarshalAttributes(filter)
		if err != nil {
			return nil, err
		}
		answers, err := s.Execute(flowMessage(getFlow, netlink.Dump, append([]byte{family, unix.NFNETLINK_V0, 0, 0}, data...)))
		if err != nil {
			return nil, err
		}
		for _, answer := range answers {
			if isFrom(answer.Data, originalTuple) || isFrom(answer.Data, replyTuple) {
				found = append(found, answer.Data)
			}
		}
	}
	return found, nil
}

// flowFilter has the kernel leave out flows that have another source in one direction.
func flowFilter(a netip.Addr, tuple uint16) []netlink.Attribute {
	b := &Batch{}
	return []netlink.Attribute{
		b.nested(tuple, b.nested(tupleAddresses, netlink.Attribute{Type: 1, Data: a.AsSlice()})),
		b.nested(filterAttribute, netlink.Attribute{Type: tuple, Data: binary.NativeEndian.AppendUint32(nil, bySource)}),
	}
}

func flowMessage(kind netlink.HeaderType, flags netlink.HeaderFlags, data []byte) netlink.Message {
	return netlink.Message{Header: netlink.Header{Type: unix.NFNL_SUBSYS_CTNETLINK<<8 | kind, Flags: netlink.Request | flags}, Data: data}
}
