// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package links

import (
	"crypto/rand"
	"net"
)

// NewMAC returns a random MAC, for links that get it when they are made: udev replaces MACs that the kernel
// has chosen, after the result of ADD has them.
func NewMAC() net.HardwareAddr {
	mac := make(net.HardwareAddr, 6)
	_, _ = rand.Read(mac) // never fails
	mac[0] = mac[0]&^1 | 2
	return mac
}

// newPortMAC returns one for a port of a bridge: higher than what other ports have, because a bridge
// without a MAC of its own takes the lowest one.
func newPortMAC() net.HardwareAddr {
	mac := NewMAC()
	mac[0], mac[1] = 0xfe, mac[1]|0x80
	return mac
}
