// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package isolation

import (
	"fmt"
	"net/netip"
	"slices"
)

// Flow is a new one.
type Flow struct {
	From, To End
	// Protocol is that of Ports, and Port the destination's; 0: the protocol has none.
	Protocol string
	Port     uint16
	// Published is whether the source has sent to a published port, which is translated to the destination.
	Published bool
}

// End is one of the two of a flow: this host, an attachment, or something else.
type End struct {
	// Host is whether it is this host.
	Host    bool
	Address netip.Addr
	// Link is the interface of this host by which its packets are routed, which together with the address makes it an
	// attachment. Empty: it is on another host.
	Link string
}

// EndOf is the end that an attachment is with one of its addresses.
func EndOf(m Member, a netip.Addr) End { return End{Address: a, Link: m.Link} }

// Member returns the attachment that an end is; nil if it is none.
func (e End) Member(members []Member) *Member {
	at := slices.IndexFunc(members, func(m Member) bool { return m.Link == e.Link && slices.Contains(m.Addresses, e.Address) })
	if e.Host || at < 0 {
		return nil
	}
	return &members[at]
}

func (e End) String() string {
	switch {
	case e.Host && e.Address.IsValid():
		return fmt.Sprintf("this host (%s)", e.Address)
	case e.Host:
		return "this host"
	}
	return e.Address.String()
}
