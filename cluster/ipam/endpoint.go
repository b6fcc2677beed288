// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ipam

import (
	"fmt"
	"net"
	"net/netip"
)

// Endpoint is where other hosts send what is for a host's blocks. The zero one: the host has
// none, because its pool is flat, or it is not known yet.
type Endpoint struct {
	// Address is the node's.
	Address netip.Addr `json:"address"`
	// LinkLocal is the IPv6 address of the interface that has Address: the next hop of IPv6
	// blocks on the same link if Address is IPv4. Not valid: there is none.
	LinkLocal netip.Addr `json:"linkLocal,omitzero"`
	// MAC is that of the pool's VXLAN device, as 02:00:5e:00:53:01. Empty: there is none. Other
	// hosts derive it from Address; see package route.
	MAC string `json:"mac,omitempty"`
}

// Validate returns why the endpoint cannot be one: another host wrote it. It does not know whose
// the address is.
func (e Endpoint) Validate() error {
	a := e.Address
	switch {
	case !a.IsValid():
		return fmt.Errorf("%w: endpoint: address is empty: want that of a node", ErrInvalid)
	case a.Zone() != "" || a.Is4In6() || !a.IsGlobalUnicast():
		return fmt.Errorf("%w: endpoint: address is %.64s: want a unicast address of a node that other hosts reach, without a zone", ErrInvalid, a)
	case e.LinkLocal.IsValid() && (!e.LinkLocal.Is6() || e.LinkLocal.Zone() != "" || !e.LinkLocal.IsLinkLocalUnicast()):
		return fmt.Errorf("%w: endpoint: linkLocal is %.64s: want a link-local IPv6 address without a zone", ErrInvalid, e.LinkLocal)
	case e.MAC != "" && !isDeviceMAC(e.MAC):
		return fmt.Errorf("%w: endpoint: mac is %.64q: want the unicast address of a device, such as 02:00:5e:00:53:01", ErrInvalid, e.MAC)
	}
	return nil
}

// isDeviceMAC is whether a text is an Ethernet address that a device may have, in the one form
// that this package writes.
func isDeviceMAC(text string) bool {
	mac, err := net.ParseMAC(text)
	return err == nil && len(mac) == 6 && mac.String() == text && mac[0]&1 == 0 && [6]byte(mac) != [6]byte{}
}
