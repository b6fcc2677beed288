// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package block

import (
	"cmp"
	"context"
	mathrand "math/rand/v2"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/allocnet/allocnet/cluster/hostid"
	"github.com/allocnet/allocnet/cluster/ipam"
)

const (
	// settle is how long a slot that another host has owned is not claimed after it vanished
	// from the store, and for how long nothing is claimed after the store was restored from a
	// snapshot: its owner, which verifies at least every 10 s, comes first.
	settle = 40 * time.Second
	// reassert is the same for a block that was this host's before another's, and which still
	// has addresses of this host: after the other owner, before those who never had it.
	reassert = 12 * time.Second
	// defaultFence is for how long a host gives out addresses without having verified. Nomad
	// forgets a node after 24 h.
	defaultFence = 20 * time.Hour
	// refreshAfter is the age at which a process without an agent verifies, at most once in
	// refreshPause, for at most refreshTimeout.
	refreshAfter, refreshPause, refreshTimeout = time.Hour, 10 * time.Minute, 5 * time.Second
	// renewAfter is the age at which an agent writes the host's entry below nodes/ anew, so that a
	// copy with the memory of this machine finds what it did not write, and others see that the
	// host lives.
	renewAfter = 40 * time.Second
	// silence is how much longer than for its fence a host that is gone has not written its entry:
	// it may have verified for an hour without writing it, and clocks differ.
	silence = 2 * refreshAfter
)

// Addresses are those of the host's blocks, which package local keeps.
type Addresses interface {
	// Lock takes the lease lock of the pool, and returns the function that releases it.
	Lock(ctx context.Context) (unlock func(), err error)
	// LastUse returns how many leases a block has, and until when the last of the others
	// cools down; zero if none was ever given out. The lease lock is held.
	LastUse(b ipam.Block) (leases int, cool time.Time, err error)
	// Forget removes the history of a block that is no longer this host's. The lease lock is
	// held.
	Forget(b ipam.Block) error
}

// Options are what Leases need.
type Options struct {
	Config    *ipam.Config
	Addresses Addresses
	// Connect returns the store, and who this host is to the others. It is called by what
	// needs the store only, each time.
	Connect func() (ipam.Store, ipam.Host, error)
	// Fence returns for how long addresses are given out without having verified; 0 is 20 h. It
	// is called by what verifies, which records it, and what gives out addresses reads the record
	// only. Nil: what is recorded stays.
	Fence func() (time.Duration, error)
	// Logger reports blocks that were lost. Nil: none.
	Logger hclog.Logger
}

// Leases are the blocks of a pool that this host has leased. They may be used concurrently,
// and by several processes.
type Leases struct {
	Options
	machine *machine
	ledger  ledger
	// pick returns a random number below n.
	pick func(n uint64) uint64
	// trusted: the store has answered all the time since all entries were read.
	trusted atomic.Bool
}

// New returns the leases of a pool. It reads nothing.
func New(o Options) *Leases {
	o.Logger = cmp.Or(o.Logger, hclog.NewNullLogger())
	dir := filepath.Join(o.Config.StateDir, "ipam")
	run := filepath.Join(o.Config.RunDir, "ipam")
	m := &machine{
		clock: kernelClock{}, random: ipam.RandomID, logger: o.Logger,
		dir: &directory{path: dir, lockName: "node.lock"}, run: &directory{path: run, volatile: true},
		self: func() (hostid.Identity, error) { return hostid.Read(dir) },
	}
	return &Leases{Options: o, machine: m, pick: mathrand.N[uint64], ledger: ledger{
		machine: m, pool: o.Config.Pool, addresses: o.Addresses,
		dir: &directory{path: filepath.Join(dir, "pools", o.Config.Pool), lockName: "store.lock"},
		run: &directory{path: filepath.Join(run, "pools", o.Config.Pool), volatile: true},
	}}
}
