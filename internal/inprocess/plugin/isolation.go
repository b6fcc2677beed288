// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"net/netip"

	current "github.com/containernetworking/cni/pkg/types/100"
)

// Isolation keeps an attachment apart from others, in ADD. Nil: nothing does.
type Isolation struct {
	// End is the name that the end on the host gets, which is on record before it is made.
	End string
	// Guard is called before the end on the host is set up: nothing passes from it that Admit does not allow. Empty bridge: it is no
	// port.
	Guard func(bridge string) error
	// Admit is called before the interface inside is set up. From then on passes what rules allow.
	Admit func(bridge, mac string, addresses []netip.Addr) error
}

// GuardEnd has nothing pass from the end on the host, which is a port of a bridge or of none.
func (c *Call) GuardEnd(bridge string) error {
	if c.Isolation == nil {
		return nil
	}
	return c.Isolation.Guard(bridge)
}

// Admit has pass what rules allow an attachment that has a MAC and the addresses of a result.
func (c *Call) Admit(bridge, mac string, result *current.Result) error {
	if c.Isolation == nil {
		return nil
	}
	var addresses []netip.Addr
	for _, network := range Networks(result) {
		if address, ok := netip.AddrFromSlice(network.IP); ok {
			addresses = append(addresses, address.Unmap())
		}
	}
	return c.Isolation.Admit(bridge, mac, addresses)
}
