// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netfilter

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Messages and attributes of the kernel's tracking of flows (linux/netfilter/nfnetlink_conntrack.h).
const (
	getFlows, deleteFlow = 1, 2

	originalTuple, replyTuple = 1, 2
	tupleAddresses            = 1
	source4, source6          = 1, 3
)

// ForgetFlows has the kernel forget the flows that addresses have begun or answer: it decides about their next packet as about a first one. To find
// them it goes through all flows of the host. A kernel that does not list flows keeps them.
func (s *Socket) ForgetFlows(of []netip.Addr) error {
	if len(of) == 0 {
		return nil
	}
	var found [][]byte
	err := whole(func() error {
		found = nil
		return s.receive(flowMessage(getFlows, netlink.Dump, []byte{unix.AF_UNSPEC, unix.NFNETLINK_V0, 0, 0}), func(flow []byte) bool {
			if isFlowOf(flow, of) {
				found = append(found, flow)
			}
			return true
		})
	})
	if err != nil {
		return fmt.Errorf("flows of %v: %w", of, err)
	}
	for _, flow := range found {
		if _, err := s.Execute(flowMessage(deleteFlow, netlink.Acknowledge, flow)); err != nil && !errors.Is(err, unix.ENOENT) { // it has ended
			return fmt.Errorf("forget a flow of %v: %w", of, err)
		}
	}
	return nil
}

// isFlowOf tells whether one of the addresses is the source in one of the two directions.
func isFlowOf(flow []byte, of []netip.Addr) bool {
	flow = flow[min(nfgenmsgSize, len(flow)):]
	for _, tuple := range []uint16{originalTuple, replyTuple} {
		for _, kind := range []uint16{source4, source6} {
			if a, ok := netip.AddrFromSlice(valueOf(flow, tuple, tupleAddresses, kind)); ok && slices.Contains(of, a) {
				return true
			}
		}
	}
	return false
}

func flowMessage(kind netlink.HeaderType, flags netlink.HeaderFlags, data []byte) netlink.Message {
	return netlink.Message{Header: netlink.Header{Type: unix.NFNL_SUBSYS_CTNETLINK<<8 | kind, Flags: netlink.Request | flags}, Data: data}
}
