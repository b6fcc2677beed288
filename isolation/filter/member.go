// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package filter

import (
	"cmp"
	"net"
	"net/netip"

	"github.com/allocnet/allocnet/isolation"
)

// Kernel has the tables of the network namespace of its caller.
type Kernel struct{}

// State is all that the host has to have.
type State struct {
	Rules   isolation.Rules
	Members []Member
}

// Source reads the state as it is recorded. An attachment is recorded before it is added.
type Source func() (State, error)

// Member is an attachment, and its end on the host.
type Member struct {
	isolation.Member
	// End is the host's end of the veth pair, and Bridge the bridge of which it is a port; empty: ptp.
	End, Bridge string
	// MAC is that of the interface inside.
	MAC net.HardwareAddr
	// Antispoof is whether the end is guarded.
	Antispoof bool
	// Via is the interface of the host by which packets of an attachment on another host are routed. With another address than its own
	// a packet that comes by it is of none, and so is one with its address that comes by another interface.
	Via string
}

// isRemote is whether it is on another host.
func (m *Member) isRemote() bool { return isolation.IsRemote(m.ID) }

// link is the interface that its packets are routed by.
func (m *Member) link() string { return cmp.Or(m.Link, m.Via) }

const macLength = 6

// linkLocal returns the address that the kernel makes of the MAC (RFC 4291, appendix A). Another one of the link may not be used by what
// is guarded: it could be that of the gateway.
func (m *Member) linkLocal() (netip.Addr, bool) {
	if len(m.MAC) != macLength {
		return netip.Addr{}, false
	}
	a := [16]byte{0: 0xfe, 1: 0x80, 8: m.MAC[0] ^ 2, 9: m.MAC[1], 10: m.MAC[2], 11: 0xff, 12: 0xfe, 13: m.MAC[3], 14: m.MAC[4], 15: m.MAC[5]}
	return netip.AddrFrom16(a), true
}

// sources are the addresses from which it may send.
func (m *Member) sources() []netip.Addr {
	all := make([]netip.Addr, 0, len(m.Addresses)+1)
	for _, a := range m.Addresses {
		if a.IsValid() {
			all = append(all, a.Unmap())
		}
	}
	if local, ok := m.linkLocal(); ok {
		all = append(all, local)
	}
	return all
}
