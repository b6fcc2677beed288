// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package local has the leases of a pool's addresses on this host, and the history of the
// addresses of its blocks: which was freed when. It knows neither the store nor how blocks come
// to the host.
//
// Leases are host-local's files, under host-local's lock. The history of a block is a file with
// a time for each of its addresses, see history. An address is marked as in use before it gets
// a lease, and as freed before it loses it, so that a process that is killed in between leaves
// an address that nothing has, and never one that two may get. An address that is marked as in
// use and has no lease was freed by another program, or by a process that was killed: its
// cooldown begins when that is seen.
package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/internal/files"
	"github.com/allocnet/allocnet/internal/leases"
)

// Addresses are those of a pool on this host. They may be used concurrently, and by several
// processes.
type Addresses struct {
	config *ipam.Config
	now    func() time.Time
	// dir has the histories.
	dir string
}

// New returns the addresses of a pool. It does no I/O.
func New(config *ipam.Config, now func() time.Time) *Addresses {
	dir := filepath.Join(config.StateDir, "ipam", "pools", config.Pool, "freed")
	return &Addresses{config: config, now: now, dir: dir}
}

// open takes the lease lock. Closing what it returns releases it.
func (a *Addresses) open(ctx context.Context) (*leases.Store, error) {
	dir, err := a.dataDir()
	if err != nil {
		return nil, err
	}
	return leases.Open(ctx, dir, a.config.Pool)
}

// Writable returns why no lease can be made or removed. Nil: the directory of the leases is
// writable, or is yet to be made.
func (a *Addresses) Writable() error {
	dir := filepath.Join(a.config.DataDir, a.config.Pool)
	err := unix.Access(dir, unix.W_OK)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return &fs.PathError{Op: "write", Path: dir, Err: err}
}

// Lock takes the lease lock of the pool, and returns the function that releases it.
func (a *Addresses) Lock(ctx context.Context) (unlock func(), err error) {
	store, err := a.open(ctx)
	if err != nil {
		return nil, err
	}
	return func() { _ = store.Close() }, nil // nothing was written
}

// locked calls do with the leases, under their lock.
func (a *Addresses) locked(ctx context.Context, do func(*leases.Store) error) error {
	store, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer store.Close() //nolint:errcheck // nothing is left to write but a cache
	return do(store)
}

// Of returns the addresses that an attachment has leases of.
func (a *Addresses) Of(ctx context.Context, owner ipam.Owner) (found []netip.Addr, err error) {
	if err := a.checkDataDir(); err != nil {
		return nil, err
	}
	err = a.locked(ctx, func(store *leases.Store) error {
		found = find(store, owner)
		return nil
	})
	return found, err
}

func find(store *leases.Store, owner ipam.Owner) []netip.Addr {
	var all []netip.Addr
	for _, ip := range store.GetByID(owner.ContainerID, owner.Interface) {
		if address, ok := netip.AddrFromSlice(ip); ok {
			all = append(all, address.Unmap())
		}
	}
	return all
}

// Release takes back all addresses of an attachment. It is no error if there is none.
func (a *Addresses) Release(ctx context.Context, owner ipam.Owner) error {
	return a.locked(ctx, func(store *leases.Store) (err error) {
		for _, address := range find(store, owner) {
			// Without its history an address has no cooldown, but its owner is gone all the same.
			err = errors.Join(err, a.record(address, a.now().UnixNano()))
		}
		return errors.Join(err, store.RemoveByID(owner.ContainerID, owner.Interface))
	})
}

// Return takes back those of the addresses that an attachment has.
func (a *Addresses) Return(ctx context.Context, owner ipam.Owner, addresses []netip.Addr) error {
	return a.locked(ctx, func(store *leases.Store) error {
		var errs []error
		for _, address := range find(store, owner) {
			if slices.Contains(addresses, address) {
				errs = append(errs, a.record(address, a.now().UnixNano()), remove(store, owner, address))
			}
		}
		return errors.Join(errs...)
	})
}

func remove(store *leases.Store, owner ipam.Owner, address netip.Addr) error {
	_, err := store.Remove(owner.ContainerID, owner.Interface, address.AsSlice())
	return err
}

// record sets the entry of an address in the history of its block, if it is one of a block.
func (a *Addresses) record(address netip.Addr, entry int64) error {
	block, ok := a.config.BlockOf(address)
	if !ok || !a.config.Usable(address) {
		return nil
	}
	h, err := openHistory(a.dir, block)
	if err != nil {
		return err
	}
	defer h.close()
	offset, _ := ipam.Offset(block, address)
	return h.set(offset, entry)
}

// Quarantine takes back an address of an attachment because another host uses it. It is not
// given out for an hour.
func (a *Addresses) Quarantine(ctx context.Context, owner ipam.Owner, address netip.Addr) error {
	return a.locked(ctx, func(store *leases.Store) error {
		if err := a.record(address, -a.now().Add(maxQuarantine).UnixNano()); err != nil {
			return err
		}
		return remove(store, owner, address)
	})
}

// Lease is an address that an attachment has.
type Lease struct {
	Address netip.Addr
	Owner   ipam.Owner
	Made    time.Time
}

// Leases returns all leases, in no order.
func (a *Addresses) Leases(ctx context.Context) (all []Lease, err error) {
	err = a.locked(ctx, func(store *leases.Store) error {
		leased, err := a.leased()
		if err != nil {
			return err
		}
		for address := range leased {
			holder, exists, err := holderOf(store, address)
			if err != nil {
				return err
			}
			info, err := os.Stat(filepath.Join(a.config.DataDir, a.config.Pool, address.String()))
			if !exists || errors.Is(err, fs.ErrNotExist) { // removed by a program without a lock
				continue
			}
			if err != nil {
				return err
			}
			all = append(all, Lease{address, holder, info.ModTime()})
		}
		return nil
	})
	return all, err
}

func holderOf(store *leases.Store, address netip.Addr) (ipam.Owner, bool, error) {
	id, ifName, leased, err := store.Owner(address.AsSlice())
	return ipam.Owner{ContainerID: id, Interface: ifName}, leased, err
}

// Owner returns whose lease an address has. It returns false if it has none.
func (a *Addresses) Owner(ctx context.Context, address netip.Addr) (holder ipam.Owner, leased bool, err error) {
	err = a.locked(ctx, func(store *leases.Store) error {
		holder, leased, err = holderOf(store, address)
		return err
	})
	return holder, leased, err
}

// Add makes the lease of a reserved address. That of the same owner is no error.
func (a *Addresses) Add(ctx context.Context, address netip.Addr, of ipam.Owner) error {
	if err := a.useDataDir(); err != nil {
		return err
	}
	return a.locked(ctx, func(store *leases.Store) error {
		made, err := store.Create(of.ContainerID, of.Interface, address.AsSlice())
		if err != nil || made {
			return err
		}
		holder, _, err := holderOf(store, address)
		if err == nil && holder != of {
			err = errdefs.As(errdefs.Unavailable, fmt.Errorf("%s is leased to %s of the container %s on this host", address, holder.Interface, holder.ContainerID))
		}
		return err
	})
}

// Remove removes the lease of a reserved address if it is this owner's.
func (a *Addresses) Remove(ctx context.Context, address netip.Addr, owner ipam.Owner) error {
	return a.locked(ctx, func(store *leases.Store) error { return remove(store, owner, address) })
}

// Forget removes the history of a block. The lease lock is held.
func (a *Addresses) Forget(b ipam.Block) error {
	return files.Remove(filepath.Join(a.dir, ipam.BlockName(b)))
}
