// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inspect

import types "github.com/containernetworking/cni/pkg/types/100"

// Host finds a link of the host.
type Host interface {
	LinkMTU(name string) (mtu int, ok bool, err error)
	FindLink(name, kind, mac string) (string, error)
}

// ipv6Switch tells whether IPv6 is switched off on an interface.
type ipv6Switch interface {
	IsIPv6Off(iface string) (bool, error)
}

// FindEnd returns the name that the end of a pair on the host has now; empty if it is gone. An operator may have renamed
// it.
func FindEnd(host Host, end *types.Interface) (string, error) {
	_, there, err := host.LinkMTU(end.Name)
	if err != nil || there {
		return end.Name, err
	}
	return host.FindLink(end.Name, "veth", end.Mac)
}
