// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ipam

import (
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// PoolContent is the configuration that all hosts of a pool have to agree on.
type PoolContent struct {
	Pool      string         `json:"pool"`
	Ranges    []Range        `json:"ranges"`
	Reserved  []netip.Prefix `json:"reserved,omitempty"`
	BlockSize BlockSize      `json:"blockSize"`
	Mode      Mode           `json:"mode,omitempty"`
	VXLAN     VXLAN          `json:"vxlan,omitzero"`
}

// BlockContent says whose a block is.
type BlockContent struct {
	Pool string `json:"pool"`
	// PoolHash is that of the owner's configuration when it claimed the block.
	PoolHash string `json:"poolHash"`
	Block    Block  `json:"block"`
	// Host is the owner. Its Instance is what counts.
	Host Host `json:"host"`
	// ClaimID is random, so that a process knows its own write.
	ClaimID string    `json:"claimID"`
	Claimed time.Time `json:"claimed"`
	// Endpoint is where the owner is reached. It is not validated when it is decoded: the block
	// is the owner's whatever it says.
	Endpoint Endpoint `json:"endpoint,omitzero"`
}

// AddressState is whether a reserved address is in use.
type AddressState string

// The states of reserved addresses.
const (
	Held AddressState = "held"
	Free AddressState = "free"
)

// AddressContent says whose a reserved address is, or was.
type AddressContent struct {
	Pool    string       `json:"pool"`
	Address netip.Addr   `json:"address"`
	State   AddressState `json:"state"`
	// Host is the last that held it. The zero one: any.
	Host    Host   `json:"host"`
	ClaimID string `json:"claimID"`
	Owner   Owner  `json:"owner"`
	// Job is for whom it is kept. A zero one: for none in particular.
	Job Job `json:"job"`
	// Reserved is whether an operator keeps it for the job.
	Reserved bool `json:"reserved,omitempty"`
	// Freed is when it became free.
	Freed time.Time `json:"freed,omitzero"`
	// Published is whether the last that held it had it on an interface of its host. No other host takes it before that one has removed
	// it there and given it back.
	Published bool `json:"published,omitempty"`
}

// NodeContent is which host has an instance's identity, since its last boot.
type NodeContent struct {
	Host Host `json:"host"`
	// Nonce is random, so that a host knows its own write from a clone's. Empty: see
	// Challenger.
	Nonce string `json:"nonce"`
	// Contested: the host has found a clone's nonce in place of its own. Neither gives out
	// addresses until the entry is deleted.
	Contested bool `json:"contested,omitempty"`
	// Insists: the host was there before a clone that is in another boot, which is refused.
	Insists bool `json:"insists,omitempty"`
	// Challenger is an instance that takes the blocks of this one unless it writes its entry
	// anew.
	Challenger string `json:"challenger,omitempty"`
	// Fence is for how long after it was last written the host may give out addresses, in
	// nanoseconds. 0: 20 h.
	Fence int64 `json:"fence,omitempty"`
}

// Content returns what the hosts have to agree on.
func (c *Config) Content() PoolContent {
	return PoolContent{Pool: c.Pool, Ranges: c.Ranges, Reserved: c.Reserved, BlockSize: c.BlockSize, Mode: c.Mode, VXLAN: c.VXLAN}
}

// Hash is that of what the hosts have to agree on.
func (c *Config) Hash() string { return c.Content().Hash() }

// Hash is that of the configuration.
func (p PoolContent) Hash() string { return checksum(marshal(p)) }

// Extends is whether the configuration is the other with more ranges, or with more reserved
// prefixes, beside the addresses that the other's blocks have.
func (p PoolContent) Extends(other PoolContent) bool {
	ranges, reserved := len(other.Ranges), len(other.Reserved)
	if len(p.Ranges) < ranges || len(p.Reserved) < reserved || len(p.Ranges)+len(p.Reserved) == ranges+reserved {
		return false
	}
	for _, added := range p.Reserved[reserved:] {
		if slices.ContainsFunc(other.Ranges, func(r Range) bool { return r.overlaps(added) }) {
			return false
		}
	}
	p.Ranges, p.Reserved = p.Ranges[:ranges], p.Reserved[:reserved]
	return p.Hash() == other.Hash()
}

// String names what differs when hosts do not agree.
func (p PoolContent) String() string { return string(marshal(p)) }

// Config returns the configuration that another host has stored, as far as hosts agree on it.
func (p PoolContent) Config() (*Config, error) {
	c := &Config{
		Pool: p.Pool, Ranges: slices.Clone(p.Ranges), Reserved: p.Reserved, BlockSize: p.BlockSize,
		Mode: p.Mode, VXLAN: p.VXLAN, DataDir: defaultDataDir, StateDir: defaultStateDir, RunDir: defaultRunDir, ConfigDir: defaultConfigDir,
	}
	for i := range c.Ranges {
		if !c.Ranges[i].Subnet.IsValid() {
			return nil, invalid(fmt.Sprintf("ranges[%d].subnet", i), "", "want a subnet")
		}
	}
	for _, p := range c.Reserved {
		if !p.IsValid() || p != p.Masked() {
			return nil, invalid("reserved", p, "want a prefix")
		}
	}
	return c, c.validate()
}
