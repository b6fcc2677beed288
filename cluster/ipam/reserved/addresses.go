// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package reserved

import (
	"cmp"
	"context"
	"math/rand/v2"
	"net/netip"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/allocnet/allocnet/cluster/ipam"
)

// Holder says what Nomad knows of those who hold addresses.
type Holder interface {
	// Ended returns since when an allocation is complete or failed, by Nomad's word. It is the
	// zero time if the allocation is anything else, lost and unknown included, or if Nomad does
	// not know it: its tasks may run.
	Ended(ctx context.Context, namespace, allocation string) (time.Time, error)
	// Gone returns whether Nomad does not know the node, and none of its allocations lives.
	Gone(ctx context.Context, nodeID string) (bool, error)
}

// Guard says whether this host may write entries of the pool: of two clones of a machine, one
// must not believe that what the other holds is its own. block.Leases is one. Its caller has locked the store.
type Guard interface {
	// Identify fails on a clone. It returns whether there may be another clone that has had no
	// time to say so: then nothing is given back that an attachment has not given back here.
	Identify(ctx context.Context, store ipam.Store, host ipam.Host) (isNew bool, err error)
	// Wrote tells whether this host may have written an entry of its instance, which says by whom:
	// else it is a copy's that was refused, and may be in use there.
	Wrote(ctx context.Context, store ipam.Store, self, by ipam.Host) (bool, error)
	// Agree fails with ipam.ErrMismatch if the hosts of the pool have another configuration:
	// what is reserved here, one of their blocks may give out.
	Agree(ctx context.Context, store ipam.Store) error
	// Silent tells whether a host has not written its entry for so long that it gives out nothing
	// any more: Nomad may have been told to forget the node of one that lives.
	Silent(ctx context.Context, store ipam.Store, self ipam.Host, instance string) (bool, error)
	// Answers asks an instance to say that it lives, and tells whether it has since it was asked last:
	// two machines may have one node ID.
	Answers(ctx context.Context, store ipam.Store, self ipam.Host, instance string) (bool, error)
}

// Leases are the lease files of the pool on this host. Each call locks them.
type Leases interface {
	// Owner returns whose lease the address has. It returns false if it has none.
	Owner(ctx context.Context, address netip.Addr) (ipam.Owner, bool, error)
	// Add makes the lease of an address. That of the same owner is no error.
	Add(ctx context.Context, address netip.Addr, owner ipam.Owner) error
	// Remove removes the lease of an address if it is this owner's.
	Remove(ctx context.Context, address netip.Addr, owner ipam.Owner) error
}

// Links are the interfaces of this host, as far as addresses are published on them.
type Links interface {
	// Published returns the published addresses, with their interfaces.
	Published() (map[netip.Addr]string, error)
	// Unpublish removes an address from the interface that has it. It is no error if none has.
	Unpublish(address netip.Addr) error
}

// Options are what Addresses need. All are required but those with a default.
type Options struct {
	Config *ipam.Config
	// Open returns the store, and who this host is. It may be called more than once.
	Open func() (ipam.Store, ipam.Host, error)
	// LockStore waits for the right to use the store for this pool, which one process of the
	// host has at a time. It is asked for before anything else is locked.
	LockStore func(ctx context.Context) (unlock func(), err error)
	Leases    Leases
	// Guard is asked before anything is written to the store.
	Guard Guard
	Links Links
	// Holder is asked whether an address of another host can be taken over. Nil: it cannot.
	Holder Holder
	// Grace is how long a node must be gone. 0: an hour.
	Grace time.Duration
	// Now is the time. Nil: time.Now.
	Now func() time.Time
	// Logger is optional.
	Logger hclog.Logger
}

// New returns the reserved addresses of a pool. It does no I/O.
func New(o Options) *Addresses {
	o.Grace, o.Logger = cmp.Or(o.Grace, time.Hour), cmp.Or(o.Logger, hclog.NewNullLogger())
	if o.Now == nil {
		o.Now = time.Now
	}
	dir := filepath.Join(o.Config.StateDir, "ipam", "pools", o.Config.Pool, "reserved")
	return &Addresses{o: o, records: directory(dir), sleep: sleep}
}

// Addresses are the reserved addresses of a pool, as this host sees them. They may be used by
// several processes and goroutines at a time.
type Addresses struct {
	o       Options
	records records
	// sleep waits; tests have a time of their own.
	sleep func(ctx context.Context, d time.Duration) error
	// trusted: the store has answered all the time since all entries were read.
	trusted atomic.Bool
}

// Distrust has all entries read again: the store has not answered, and may have been restored.
func (a *Addresses) Distrust() { a.trusted.Store(false) }

// sleep waits for d, and up to half as long again: hosts that wait for each other begin again at
// different times.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d + rand.N(d/2)):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
