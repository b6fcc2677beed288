// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import (
	"net/netip"
	"slices"
	"sync"

	"github.com/allocnet/allocnet/internal/netns"
)

// Once returns the host for one operation, whose addresses are listed once, however many networks are compared with them. What
// the host got since is found by the address.
func Once(h Host) Host {
	return once{h, sync.OnceValues(func() ([]netns.Interface, error) { return h.Addressed() })}
}

type once struct {
	Host
	addressed func() ([]netns.Interface, error)
}

func (o once) Addressed() ([]netns.Interface, error) { return o.addressed() }

// Holder lists the addresses again only if one of those given seems to be among them.
func (o once) Holder(addresses []netip.Addr) (netip.Addr, string, error) {
	links, err := o.addressed()
	had := func(a netip.Addr) bool {
		return slices.ContainsFunc(links, func(i netns.Interface) bool {
			return slices.ContainsFunc(i.Addresses, func(p netip.Prefix) bool { return p.Addr() == a })
		})
	}
	if err == nil && !slices.ContainsFunc(addresses, had) && !slices.ContainsFunc(addresses, o.MayHold) {
		return netip.Addr{}, "", nil
	}
	return o.Host.Holder(addresses)
}
