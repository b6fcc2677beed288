// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package pool is a pool of addresses as a host uses it: what gives out addresses, takes them
// back, and looks after the host's part of the pool. It is what the CNI plugin, the agent and
// the command line call.
package pool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/ipam/block"
	"github.com/allocnet/allocnet/cluster/ipam/local"
	"github.com/allocnet/allocnet/cluster/ipam/reserved"
	"github.com/allocnet/allocnet/internal/files"
	"github.com/allocnet/allocnet/internal/netns"
)

// Options are what a Pool needs.
type Options struct {
	// Config is required.
	Config *ipam.Config
	// Open returns the store, and who this host is. It is required, and called whenever the store
	// is needed, which is not to add or remove addresses of blocks that the host has.
	Open func() (ipam.Store, ipam.Host, error)
	// Holder is asked whether an address or a block of another host can be taken over. Nil: it
	// cannot.
	Holder Holder
	// Probe asks the network whether another host has an address before it is given out. Nil:
	// it is not asked.
	Probe func(ctx context.Context, address netip.Addr) (taken bool, err error)
	// Grace is how long a node must be gone before others take what it had. 0: an hour.
	Grace time.Duration
	// Fence returns for how long new addresses are given out without having verified that the
	// blocks are still this host's; 0 is 20 h. It is called to verify, and recorded for all
	// processes. Nil: it stays as it was recorded last.
	Fence func() (time.Duration, error)
	// Links are the interfaces of the host that reserved addresses are published on. Nil: those of the caller's namespace.
	Links reserved.Links
	// Now is the time. Nil: time.Now.
	Now func() time.Time
	// Logger is optional.
	Logger hclog.Logger
}

// Holder says what Nomad knows of those who hold addresses and blocks.
type Holder = reserved.Holder

// Pool is a pool of addresses. It may be used concurrently, and by several processes.
type Pool struct {
	o        Options
	local    *local.Addresses
	blocks   *block.Leases
	reserved *reserved.Addresses
	// dir has the locks of the pool.
	dir       string
	conflicts conflicts
}

// New returns a pool. It does no I/O.
func New(o Options) *Pool {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Links == nil {
		o.Links = ownLinks{}
	}
	o.Logger = cmp.Or(o.Logger, hclog.NewNullLogger())
	o.Grace = cmp.Or(o.Grace, time.Hour)
	dir := filepath.Join(o.Config.StateDir, "ipam", "pools", o.Config.Pool)
	p := &Pool{o: o, local: local.New(o.Config, o.Now), dir: dir, conflicts: conflicts{filepath.Join(dir, "conflicts"), o.Logger}}
	p.blocks = block.New(block.Options{
		Config: o.Config, Addresses: p.local, Connect: o.Open, Fence: o.Fence, Logger: o.Logger,
	})
	p.reserved = reserved.New(reserved.Options{
		Config: o.Config, Open: o.Open, Leases: p.local, Guard: p.blocks, Links: o.Links, Holder: o.Holder, Grace: o.Grace,
		LockStore: func(ctx context.Context) (func(), error) { return p.lock(ctx, "store.lock") },
		Now:       o.Now, Logger: o.Logger,
	})
	return p
}

// ownLinks are those of the caller's network namespace.
type ownLinks struct{}

func (ownLinks) Published() (map[netip.Addr]string, error) { return netns.Published() }
func (ownLinks) Unpublish(address netip.Addr) error        { return netns.Unpublish(address) }

// lock locks a file in the pool's directory. The order of locks is claim.lock, under which
// processes of this host claim blocks one after the other, store.lock, under which they use the
// store, and the lease lock. conflicts.lock is taken alone.
func (p *Pool) lock(ctx context.Context, name string) (unlock func(), err error) {
	return files.LockFile(ctx, filepath.Join(p.dir, name), unix.LOCK_EX)
}

// Del takes back the addresses of an attachment. It does not wait for the store, and it is no
// error if the attachment has none.
func (p *Pool) Del(ctx context.Context, owner ipam.Owner) error {
	return errors.Join(p.reserved.Free(ctx, owner), p.local.Release(ctx, owner))
}

// Leases returns the leases of the pool's addresses on this host.
func (p *Pool) Leases(ctx context.Context) ([]local.Lease, error) { return p.local.Leases(ctx) }

// Check requires that an attachment has leases of these addresses and no others, at least one,
// and that the blocks they are from are this host's.
func (p *Pool) Check(ctx context.Context, owner ipam.Owner, addresses []netip.Addr) error {
	have, err := p.local.Of(ctx, owner)
	if err != nil {
		return err
	}
	if len(have) == 0 {
		return fmt.Errorf("%w: container %s, interface %s: pool %s has none", ipam.ErrNoLease, owner.ContainerID, owner.Interface, p.o.Config.Pool)
	}
	for _, address := range have {
		if !slices.Contains(addresses, address) {
			return fmt.Errorf("%w: container %s, interface %s: it has a lease of %s, which the result %v lacks", ipam.ErrNoLease, owner.ContainerID, owner.Interface, address, addresses)
		}
	}
	held, err := p.agreed()
	if err != nil {
		return err
	}
	for _, address := range addresses {
		if err := check(p.o.Config, owner, address, have, held); err != nil {
			return err
		}
	}
	return nil
}
