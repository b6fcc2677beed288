// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package route

import (
	"fmt"
	"net/netip"
)

// object is what the kernel's tables have. Objects can be compared.
type object interface{ fmt.Stringer }

type device struct {
	name, alias, mac string
	mtu, id, port    int
	// local is where its packets are from.
	local netip.Addr
	// flooding is whether it learns, or sends packets for unknown MACs to other hosts.
	flooding bool
	up       bool
	// tuned is whether its sysctls are right; see settingsOf. Without an IPv4 address the kernel would
	// filter strictly.
	tuned, hasIPv4 bool
	// ipv6 is whether IPv6 is on.
	ipv6 bool
	// linkLocal is the address that belongs to the MAC. Not valid: IPv6 is off.
	linkLocal netip.Addr
}

// neighbour says which MAC an address on a device has.
type neighbour struct {
	device  string
	address netip.Addr
	mac     string
}

// forward says which host has a MAC behind a device: what bridge(8) calls an FDB entry.
type forward struct {
	device, mac string
	to          netip.Addr
}

type entry struct {
	prefix netip.Prefix
	// via is not valid if the prefix is on the link.
	via    netip.Addr
	device string
	metric int
	// onlink is whether via is taken to be on the link of the device.
	onlink bool
	// unreachable is whether packets are answered with an error.
	unreachable bool
	ours        bool
	// source is the address of this host's own packets. Not valid: the kernel chooses.
	source netip.Addr
	// scope is the kernel's for the route.
	scope int
	// odd is whether the route has what ours never have, such as several next hops.
	odd bool
}

// place is what the kernel has one route for.
type place struct {
	prefix netip.Prefix
	metric int
}

func (e entry) place() place { return place{e.prefix, e.metric} }

func (d device) String() string { return "device " + d.name }
func (n neighbour) String() string {
	return fmt.Sprintf("neighbour %s %s dev %s", n.address, n.mac, n.device)
}
func (f forward) String() string {
	return fmt.Sprintf("forwarding of %s to %s dev %s", f.mac, f.to, f.device)
}

func (e entry) String() string {
	if e.unreachable {
		return fmt.Sprintf("route unreachable %s metric %d", e.prefix, e.metric)
	}
	if !e.via.IsValid() {
		return fmt.Sprintf("route %s dev %s", e.prefix, e.device)
	}
	return fmt.Sprintf("route %s via %s dev %s", e.prefix, e.via, e.device)
}

type verb string

const (
	// add is for an object that the kernel does not have.
	add verb = "add"
	// replace is for an object with a key that the kernel has: it is never missing in between.
	replace verb = "replace"
	remove  verb = "remove"
)

type change struct {
	verb   verb
	object object
}

func (c change) String() string { return string(c.verb) + " " + c.object.String() }
