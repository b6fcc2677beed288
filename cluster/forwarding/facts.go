// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package forwarding finds what on a host drops packets between the allocations of its pools
// and those of other hosts: settings of the kernel, and rules of iptables, nftables and
// firewalld. Collect reads them, and Facts.Obstacles decides, without I/O. Nothing is changed.
//
// Rules are followed for the first packet of a connection: of one within a pool, of one from a network that only this host has
// to elsewhere (outward.go), or of one between two addresses (flow.go). What most rules consist of is understood: names of interfaces, prefixes, states of connections, verdicts and chains.
// A rule with anything else, such as a named set, a map or a mark, may match or not. If only such a rule may accept a packet
// between hosts, that is a warning. If only such a rule may accept one to elsewhere, nothing is reported, so that no operator is
// told to open a firewall further which may let the packet through already.
package forwarding

import (
	"net/netip"

	"github.com/allocnet/allocnet/cleanup"
	"github.com/allocnet/allocnet/cluster/ipam"
)

// Facts are what a host does with packets that it forwards.
type Facts struct {
	// Devices are the VXLAN devices of pools, by the pool's name.
	Devices map[string]Device
	// Underlay is the interface with the address that other hosts send to. Empty: unknown.
	Underlay Interface
	// Addresses are those of all interfaces.
	Addresses []Address
	// Unread is what could not be read. It is no obstacle.
	Unread []error
	// IsGuarded tells whether something drops what allocations of this host send to the UDP port of a pool's VXLAN. Nil: rules
	// are not read.
	IsGuarded func(pool string) (bool, error)
	// Listings are the rules of iptables, in each of its places that is in use.
	Listings []cleanup.Listing

	// ipv4 and ipv6 are the settings of forwarding: "0", "1", or empty if the kernel has none.
	ipv4, ipv6 string
	rulesets   []*ruleset
	// bridgeTables are the tables with rules for what bridges forward.
	bridgeTables []bridgeTable
	inVRF        []string
	// zones are those of firewalld. Nil: it does not run.
	zones []zone
}

// Device is the VXLAN device of a pool.
type Device struct {
	MTU  int
	name string
}

// Interface is one of the host.
type Interface struct {
	Name string
	MTU  int
	// IsIPv6 is whether other hosts send to an IPv6 address.
	IsIPv6 bool

	// strict is whether packets are dropped whose source is not routed to the interface.
	strict bool
	// forwards is the setting for IPv4 packets from this interface, as Facts.ipv4.
	forwards string
}

// Address is one of an interface.
type Address struct {
	Interface string
	Prefix    netip.Prefix
}

// VXLAN over IPv4 adds that many bytes to a packet, and over IPv6 that many.
const (
	overheadIPv4 = 50
	overheadIPv6 = 70
)

// VXLANMTU returns the largest packet that passes a pool's VXLAN; 0 if the pool has none, or it
// is not known.
func (f *Facts) VXLANMTU(pool *ipam.Config) int {
	device, ok := f.Devices[pool.Pool]
	switch {
	case pool.VXLAN == ipam.VXLAN{}:
		return 0
	case ok:
		return device.MTU
	case f.Underlay.Name == "":
		return 0
	case f.Underlay.IsIPv6:
		return f.Underlay.MTU - overheadIPv6
	}
	return f.Underlay.MTU - overheadIPv4
}
