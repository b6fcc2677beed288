// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package span

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/internal/netns"
)

// selfAgain is the time between two questions for this host's own address.
const selfAgain = time.Minute

// selfSoon is the time if no interface has the address any more: Nomad's client has another one
// when it is started again.
const selfSoon = time.Second

// locator finds where this host is reached. It is not for concurrent use.
type locator struct {
	nomad     Nomad
	linkLocal func(netip.Addr) (netip.Addr, error)

	// found is Nomad's answer, and asked when it came.
	found netip.Addr
	asked time.Time
	// moved is whether no interface had the address the last time.
	moved bool
}

var errNoAddress = errdefs.New(errdefs.Refused, "the address of this host is not known: set address in the block cluster")

// locate returns the endpoint without a MAC. configured is the address if it is valid.
func (l *locator) locate(ctx context.Context, configured netip.Addr) (ipam.Endpoint, error) {
	address, err := configured, error(nil)
	if !address.IsValid() {
		address, err = l.self(ctx)
	}
	if err != nil {
		return ipam.Endpoint{}, err
	}
	linkLocal, err := l.linkLocal(address)
	l.moved = err != nil
	if err != nil {
		return ipam.Endpoint{}, err
	}
	return ipam.Endpoint{Address: address, LinkLocal: linkLocal}, nil
}

// self returns the address that Nomad has of this host. An earlier answer is as good while there
// is no other.
func (l *locator) self(ctx context.Context) (netip.Addr, error) {
	again := selfAgain
	if l.moved {
		again = selfSoon
	}
	if l.found.IsValid() && time.Since(l.asked) < again {
		return l.found, nil
	}
	n, err := l.nomad.Self(ctx)
	switch {
	case err == nil && len(n.Addresses) > 0:
		l.found, l.asked = n.Addresses[0], time.Now()
	case l.found.IsValid():
	case err != nil:
		return netip.Addr{}, fmt.Errorf("%w; or Nomad has to answer: %w", errNoAddress, err)
	default:
		return netip.Addr{}, errNoAddress
	}
	return l.found, nil
}

// LinkLocal returns the lowest link-local IPv6 address of the interface that has an address; not
// valid if it has none. It is an error if no interface of the host has the address.
func LinkLocal(address netip.Addr) (netip.Addr, error) {
	all, err := netns.Whole(func() ([]netlink.Addr, error) { return netlink.AddrList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return netip.Addr{}, fmt.Errorf("list the addresses of this host: %w", err)
	}
	index := 0
	linkLocal := map[int]netip.Addr{}
	for i := range all {
		a, ok := netip.AddrFromSlice(all[i].IP)
		a = a.Unmap()
		switch at := all[i].LinkIndex; {
		case !ok:
		case a == address:
			index = at
		case a.Is6() && a.IsLinkLocalUnicast() && (!linkLocal[at].IsValid() || a.Less(linkLocal[at])):
			linkLocal[at] = a
		}
	}
	if index == 0 {
		return netip.Addr{}, errdefs.As(errdefs.Refused, fmt.Errorf("no interface of this host has %s: set address in the block cluster to one that other hosts reach", address))
	}
	return linkLocal[index], nil
}
