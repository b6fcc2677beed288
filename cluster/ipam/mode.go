// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ipam

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Mode is how the hosts of a pool reach each other's addresses.
type Mode string

// The modes of pools. The zero value is ModeFlat: what the store has of a flat pool has no mode.
const (
	// ModeFlat is a pool whose interfaces are on one link: there is nothing to route.
	ModeFlat Mode = ""
	// ModeRouted has a route for each block of another host, via that host's address.
	ModeRouted Mode = "routed"
	// ModeVXLAN has a VXLAN device for the blocks of other hosts.
	ModeVXLAN Mode = "vxlan"
	// ModeAuto is ModeRouted for the hosts whose address is on a link of this host, and
	// ModeVXLAN for the others.
	ModeAuto Mode = "auto"
)

// flatText is what a configuration calls ModeFlat.
const flatText = "flat"

// VXLAN says which VXLAN a pool has. The zero one: none.
type VXLAN struct {
	// ID is the VXLAN network identifier, from 1 to 2^24-1.
	ID int `json:"id"`
	// Port is the UDP port that all hosts send to.
	Port int `json:"port"`
}

const (
	// defaultVXLANPort is the one that IANA has assigned. Linux has another one.
	defaultVXLANPort = 4789
	maxVXLANPort     = 1<<16 - 1
	maxVXLANID       = 1<<24 - 1
)

// String returns the mode as a configuration has it.
func (m Mode) String() string {
	if m == ModeFlat {
		return flatText
	}
	return string(m)
}

// HasVXLAN is whether hosts of the pool have a VXLAN device.
func (m Mode) HasVXLAN() bool { return m == ModeVXLAN || m == ModeAuto }

func parseMode(text string) Mode {
	if text == flatText {
		return ModeFlat
	}
	return Mode(text)
}

// Subnets returns the subnets of the ranges, each once, in their order. A pool whose mode is not
// flat has one of each family.
func (c *Config) Subnets() []netip.Prefix {
	var all []netip.Prefix
	for i := range c.Ranges {
		if s := c.Ranges[i].Subnet; !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all
}

// validateMode refuses what cannot work between hosts without a common link.
func (c *Config) validateMode() error {
	modes := []Mode{ModeFlat, ModeRouted, ModeVXLAN, ModeAuto}
	switch {
	case !slices.Contains(modes, c.Mode):
		return invalid("mode", string(c.Mode), "want one of flat, routed, vxlan and auto")
	case !c.Mode.HasVXLAN() && c.VXLAN != VXLAN{}:
		return invalid("vxlan", fmt.Sprintf("%+v", c.VXLAN), "want it with the mode vxlan or auto only; the mode is %s", c.Mode)
	case c.Mode == ModeFlat:
		return nil
	case c.Probe != "":
		return invalid("probe", c.Probe, "want none with the mode %s: the hosts have no link in common", c.Mode)
	case len(c.Reserved) > 0:
		return invalid("reserved", strings.Trim(fmt.Sprint(c.Reserved), "[]"), "want none with the mode %s: other hosts have routes to blocks only", c.Mode)
	case c.Sticky:
		return invalid("sticky", c.Sticky, "want false with the mode %s, which has no reserved addresses", c.Mode)
	}
	if err := c.validateRouted(); err != nil || !c.Mode.HasVXLAN() {
		return err
	}
	return c.validateVXLAN()
}

// unroutable are prefixes whose packets are not forwarded (RFC 6890), and multicast.
var unroutable = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("169.254.0.0/16"), netip.MustParsePrefix("224.0.0.0/4"),
	netip.MustParsePrefix("::/8"), netip.MustParsePrefix("fe80::/10"), netip.MustParsePrefix("ff00::/8"),
}

// shortest is the length of the largest subnet whose blocks may have routes. The largest private
// network has 8 bits, and a site gets at least 32.
func (f Family) shortest() int {
	if f == IPv4 {
		return 8
	}
	return 32
}

// validateRouted requires one subnet and one gateway of each family: every host has the gateway
// on its own interface, and a bridge accepts one address of a subnet.
func (c *Config) validateRouted() error {
	for i := range c.Ranges {
		r := &c.Ranges[i]
		field := fmt.Sprintf("ranges[%d]", i)
		first := slices.IndexFunc(c.Ranges, func(o Range) bool { return FamilyOf(o.Start) == FamilyOf(r.Start) })
		around := aroundGateway(r.Subnet, r.Gateway)
		special := slices.IndexFunc(unroutable, r.Subnet.Overlaps)
		switch of := c.Ranges[first]; {
		case special >= 0:
			return invalid(field+".subnet", r.Subnet, "want no address of %s with the mode %s", unroutable[special], c.Mode)
		case r.Subnet.Bits() < FamilyOf(r.Start).shortest():
			return invalid(field+".subnet", r.Subnet, "want at least /%d with the mode %s: its blocks have routes", FamilyOf(r.Start).shortest(), c.Mode)
		case !hasNetworkAddress(r.Subnet):
			return invalid(field+".subnet", r.Subnet, "want at most /%d with the mode %s", r.Start.BitLen()-2, c.Mode)
		case r.Subnet != of.Subnet:
			return invalid(field+".subnet", r.Subnet, "want %s with the mode %s, as ranges[%d] has: all ranges of a family are of one subnet", of.Subnet, c.Mode, first)
		case !r.hostHas(r.Gateway):
			return invalid(field+".gateway", r.Gateway, "want the address of a host in %s with the mode %s", r.Subnet, c.Mode)
		case r.Gateway != of.Gateway:
			return invalid(field+".gateway", r.Gateway, "want %s with the mode %s, as ranges[%d] has", of.Gateway, c.Mode, first)
		case r.Gateway.Is6() && !around.IsSingleIP() && r.overlaps(around):
			return invalid(field, r.Start.String()+"-"+r.End.String(), "want no address of %s, around the gateway, with the mode %s", around, c.Mode)
		}
	}
	return nil
}

// hostHas is whether an address is one of the subnet that a host may have.
func (r *Range) hostHas(a netip.Addr) bool {
	first, last := r.bounds()
	return r.Subnet.Contains(a) && !a.Less(first) && !last.Less(a)
}

// validateVXLAN sets what is missing.
func (c *Config) validateVXLAN() error {
	c.VXLAN.ID, c.VXLAN.Port = cmp.Or(c.VXLAN.ID, vxlanID(c.Pool)), cmp.Or(c.VXLAN.Port, defaultVXLANPort)
	switch {
	case c.VXLAN.ID < 1 || c.VXLAN.ID > maxVXLANID:
		return invalid("vxlan.id", c.VXLAN.ID, "want 1 to %d, or none for one derived from the pool's name", maxVXLANID)
	case c.VXLAN.Port < 1 || c.VXLAN.Port > maxVXLANPort:
		return invalid("vxlan.port", c.VXLAN.Port, "want 1 to %d, or none for %d", maxVXLANPort, defaultVXLANPort)
	}
	return nil
}

// vxlanID derives an identifier from a pool's name, so that the hosts agree without a key.
func vxlanID(pool string) int {
	sum := sha256.Sum256([]byte(pool))
	id := int(sum[0])<<16 | int(sum[1])<<8 | int(sum[2])
	return max(id, 1)
}
