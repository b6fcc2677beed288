// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ipam

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/containernetworking/cni/pkg/types"
)

// Config is the configuration of a pool on a host. The hosts of a cluster have to agree on what
// Hash covers.
type Config struct {
	// Pool is the name of the pool.
	Pool string
	// Ranges are where addresses are from. An attachment gets an address of each family that
	// they have, from the first range of the family with room.
	Ranges []Range
	// Reserved are prefixes whose addresses are given out only if requested, or as sticky
	// addresses. Blocks do not give them out.
	Reserved []netip.Prefix
	// BlockSize is the prefix length of blocks.
	BlockSize BlockSize
	// Cooldown is how long an address is not given out after it was freed.
	Cooldown time.Duration
	// Mode is how the hosts reach each other's addresses. The zero value is ModeFlat.
	Mode Mode
	// VXLAN is set with ModeVXLAN and ModeAuto only. The zero value of ID is one derived from the
	// pool's name, and of Port 4789.
	VXLAN VXLAN
	// Probe is the interface on which an address is probed for before it is given out. Empty:
	// no probe.
	Probe string
	// Sticky is whether an allocation gets the reserved address that it had before.
	Sticky bool
	// MaxReservedPerJob limits the reserved addresses of a job. 0: no limit.
	MaxReservedPerJob int
	// MaxBlocks limits the blocks of each family that a host claims, so that one host does not
	// take the whole pool. 0: 20.
	MaxBlocks int
	// PublishedOnly: no network of this host has attachments with addresses of the pool. They are published on interfaces of hosts,
	// so this host needs no block. It is found in the networks, and not in the pool's own configuration.
	PublishedOnly bool
	// Routes and DNS are for the results of attachments.
	Routes []*types.Route
	DNS    types.DNS
	// DataDir has the leases, StateDir what the host knows of its blocks, and ConfigDir the
	// agent's configuration with the store and its credentials.
	DataDir, StateDir, ConfigDir string
	// RunDir has what the host knows of this boot, and a boot empties.
	RunDir string
}

// Range is a part of a subnet.
type Range struct {
	Subnet netip.Prefix `json:"subnet"`
	// Start and End are the first and the last address.
	Start netip.Addr `json:"start"`
	End   netip.Addr `json:"end"`
	// Gateway is for the results of attachments, and never given out. Not valid: none.
	Gateway netip.Addr `json:"gateway"`
	// Exclude are never given out.
	Exclude []netip.Prefix `json:"exclude,omitempty"`
}

// BlockSize has the prefix lengths of blocks. They never change in a pool.
type BlockSize struct {
	IPv4 int `json:"ipv4"`
	IPv6 int `json:"ipv6"`
}

// Block is a prefix whose addresses a host gives out: one of Slots.
type Block = netip.Prefix

// maxHostBits limits the addresses of a block, and of a reserved prefix: a host has a file of
// a few bytes for each.
const maxHostBits = 16

// isPoolName is whether a text has 1 to 63 of a-z, 0-9 and -, the first of which is no -. It is
// no regular expression: to compile one takes a part of the plugin's start.
func isPoolName(text string) bool {
	other := func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' }
	return text != "" && len(text) <= 63 && text[0] != '-' && !strings.ContainsFunc(text, other)
}

// Families returns the families of the ranges, in their order. An attachment gets an address
// of each.
func (c *Config) Families() []Family {
	var all []Family
	for i := range c.Ranges {
		if f := FamilyOf(c.Ranges[i].Start); !slices.Contains(all, f) {
			all = append(all, f)
		}
	}
	return all
}

// BlockFamilies are the families of which this host has blocks.
func (c *Config) BlockFamilies() []Family {
	if c.PublishedOnly {
		return nil
	}
	return c.Families()
}

// Assign returns the address as an attachment's.
func (c *Config) Assign(a netip.Addr) (Assigned, error) {
	at := slices.IndexFunc(c.Ranges, func(r Range) bool { return r.has(a) })
	if at < 0 { // a reserved one may be beside the start and end of the ranges of its subnet
		at = slices.IndexFunc(c.Ranges, func(r Range) bool { return r.Subnet.Contains(a) })
	}
	if at < 0 {
		return Assigned{}, fmt.Errorf("%w: %s is in no range of the pool %s", ErrInvalid, a, c.Pool)
	}
	r := &c.Ranges[at]
	return Assigned{Address: netip.PrefixFrom(a, r.Subnet.Bits()), Gateway: r.Gateway}, nil
}

func (r *Range) has(a netip.Addr) bool {
	return a.BitLen() == r.Start.BitLen() && !a.Less(r.Start) && !r.End.Less(a)
}

func (r *Range) overlaps(p netip.Prefix) bool {
	_, found := intersect(p, r.Start, r.End)
	return found
}

// validate checks what was parsed, and fills in what depends on it.
func (c *Config) validate() error {
	switch {
	case !isPoolName(c.Pool) || c.Pool == nodesName:
		return invalid("pool", c.Pool, "want a name of a-z, 0-9 and -, other than %s", nodesName)
	case len(c.Ranges) == 0:
		return invalid("ranges", "", "want at least one")
	case c.Cooldown < 0:
		return invalid("cooldown", c.Cooldown, "want a duration such as 60s")
	case c.MaxReservedPerJob < 0:
		return invalid("maxReservedPerJob", c.MaxReservedPerJob, "want a number, or 0 for no limit")
	case c.MaxBlocks < 0:
		return invalid("maxBlocks", c.MaxBlocks, "want a number of blocks, or 0 for %d", defaultMaxBlocks)
	case c.MaxBlocks == 0:
		c.MaxBlocks = defaultMaxBlocks
	}
	for i := range c.Ranges {
		if c.Mode != ModeFlat {
			c.Ranges[i].keepGateway()
		}
		if err := c.Ranges[i].validate(fmt.Sprintf("ranges[%d]", i)); err != nil {
			return err
		}
	}
	for _, check := range []func() error{c.validateBlockSize, c.validateOverlaps, c.validateReserved, c.validateDirs, c.validateMode} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// validateBlockSize sets what is missing: the default, or one block for the smallest subnet.
func (c *Config) validateBlockSize() error {
	for _, f := range []Family{IPv4, IPv6} {
		size, bits := c.BlockSize.of(f), f.bits()
		missing := *size == 0
		if missing {
			*size = f.bits() - 6
		}
		for i := range c.Ranges {
			subnet := c.Ranges[i].Subnet
			if FamilyOf(subnet.Addr()) != f || subnet.Bits() <= *size {
				continue
			}
			if !missing {
				return invalid("blockSize", *size, "want at least the %d of %s", subnet.Bits(), subnet)
			}
			*size = subnet.Bits()
		}
		if *size < bits-maxHostBits || *size > bits {
			return invalid("blockSize", *size, "want %d to %d for IPv%d", bits-maxHostBits, bits, f)
		}
	}
	return nil
}

func (s *BlockSize) of(f Family) *int {
	if f == IPv4 {
		return &s.IPv4
	}
	return &s.IPv6
}

// validateOverlaps lets several ranges be of one subnet.
func (c *Config) validateOverlaps() error {
	for i := range c.Ranges {
		for j := range i {
			a, b := &c.Ranges[j], &c.Ranges[i]
			field := fmt.Sprintf("ranges[%d]", i)
			if a.Subnet != b.Subnet && a.Subnet.Overlaps(b.Subnet) {
				return invalid(field, b.Subnet, "want a subnet that does not overlap %s", a.Subnet)
			}
			if a.has(b.Start) || b.has(a.Start) {
				return invalid(field, b.Start.String()+"-"+b.End.String(), "want no address of %s-%s", a.Start, a.End)
			}
		}
	}
	return nil
}

func (c *Config) validateReserved() error {
	for i, p := range c.Reserved {
		field := fmt.Sprintf("reserved[%d]", i)
		inSubnet := slices.ContainsFunc(c.Ranges, func(r Range) bool { return within(p, r.Subnet) })
		switch {
		case !inSubnet:
			return invalid(field, p, "want a prefix in the subnet of a range")
		case p.Addr().BitLen()-p.Bits() > maxHostBits:
			return invalid(field, p, "want at least /%d", p.Addr().BitLen()-maxHostBits)
		case slices.ContainsFunc(c.Reserved[:i], p.Overlaps):
			return invalid(field, p, "want a prefix that does not overlap the others")
		}
	}
	return nil
}

func (c *Config) validateDirs() error {
	for field, dir := range map[string]string{"dataDir": c.DataDir, "stateDir": c.StateDir, "runDir": c.RunDir, "configDir": c.ConfigDir} {
		if !filepath.IsAbs(dir) {
			return invalid(field, dir, "want an absolute path")
		}
	}
	return nil
}

// validate sets what is missing: start and end, and, as host-local does, the gateway.
func (r *Range) validate(field string) error {
	if r.Subnet != r.Subnet.Masked() {
		return invalid(field+".subnet", r.Subnet, "want %s", r.Subnet.Masked())
	}
	first, last := r.bounds()
	if !r.Start.IsValid() {
		r.Start = first
	}
	if !r.End.IsValid() {
		r.End = last
	}
	if !r.Gateway.IsValid() && first != r.Subnet.Addr() {
		r.Gateway = first
	}
	switch {
	case !r.Subnet.Contains(r.Start):
		return invalid(field+".rangeStart", r.Start, "want an address of %s", r.Subnet)
	case !r.Subnet.Contains(r.End) || r.End.Less(r.Start):
		return invalid(field+".rangeEnd", r.End, "want an address of %s, and not before %s", r.Subnet, r.Start)
	case r.Gateway.IsValid() && r.Gateway.BitLen() != r.Start.BitLen():
		return invalid(field+".gateway", r.Gateway, "want an address of the family of %s", r.Subnet)
	}
	for i, p := range r.Exclude {
		if !within(p, r.Subnet) {
			return invalid(fmt.Sprintf("%s.exclude[%d]", field, i), p, "want a prefix in %s", r.Subnet)
		}
	}
	return nil
}

// bounds returns the first and the last address that a host may have.
func (r *Range) bounds() (first, last netip.Addr) {
	first, last = r.Subnet.Addr(), LastOf(r.Subnet)
	if !hasNetworkAddress(r.Subnet) {
		return first, last
	}
	if first.Is4() {
		last = last.Prev() // the broadcast address
	}
	return first.Next(), last
}

// hasNetworkAddress is whether the first address is not a host's: that of the network, or of
// all routers. Links between two hosts have none (RFC 3021, RFC 6164).
func hasNetworkAddress(subnet netip.Prefix) bool {
	return subnet.Addr().BitLen()-subnet.Bits() >= 2
}

// within is whether all addresses of p are in the other prefix.
func within(p, other netip.Prefix) bool {
	return p.Bits() >= other.Bits() && other.Contains(p.Addr())
}
