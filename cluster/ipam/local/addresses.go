// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package local

import (
	"context"
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/cluster/ipam"
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

// Of returns the addresses that an attachment has leases of.
func (a *Addresses) Of(ctx context.Context, owner ipam.Owner) ([]netip.Addr, error) {
	if err := a.checkDataDir(); err != nil {
		return nil, err
	}
	store, err := a.open(ctx)
	if err != nil {
		return nil, err
	}
	defer store.Close() //nolint:errcheck // nothing is left to write but a cache
	return find(store, owner), nil
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
	store, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer store.Close() //nolint:errcheck // nothing is left to write but a cache
	for _, address := range find(store, owner) {
		// Without its history an address has no cooldown, but its owner is gone all the same.
		err = errors.Join(err, a.record(address, a.now().UnixNano()))
	}
	return errors.Join(err, store.RemoveByID(owner.ContainerID, owner.Interface))
}

// Return takes back those of the addresses that an attachment has.
func (a *Addresses) Return(ctx context.Context, owner ipam.Owner, addresses []netip.Addr) error {
	store, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer store.Close() //nolint:errcheck // nothing is left to write but a cache
	var errs []error
	for _, address := range find(store, owner) {
		if slices.Contains(addresses, address) {
			_, err := store.Remove(owner.ContainerID, owner.Interface, address.AsSlice())
			errs = append(errs, a.record(address, a.now().UnixNano()), err)
		}
	}
	return errors.Join(errs...)
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
	store, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer store.Close() //nolint:errcheck // nothing is left to write but a cache
	if err := a.record(address, -a.now().Add(maxQuarantine).UnixNano()); err != nil {
		return err
	}
	_, err = store.Remove(owner.ContainerID, owner.Interface, address.AsSlice())
	return err
}

// Lease is an address that an attachment has.
type Lease struct {
	Address netip.Addr
	Owner   ipam.Owner
	Made    time.Time
}

// Leases returns all leases, in no order.
func (a *Addresses) Leases(ctx context.Context) ([]Lease, error) {
	store, err := a.open(ctx)
	if err != nil {
		return nil, err
	}
	defer store.Close() //nolint:errcheck // nothing is left to write but a cache
	leased, err := a.leased()
	if err != nil {
		return nil, err
	}
	all := make([]Lease, 0, len(leased))
	for address := range leased {
		id, ifName, exists, err := store.Owner(address.AsSlice())
		if err != nil {
			return nil, err
		}
		info, err := os.Stat(filepath.Join(a.config.DataDir, a.config.Pool, address.String()))
		if !exists || errors.Is(err, fs.ErrNotExist) { // removed by a program without a lock
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, Lease{address, ipam.Owner{ContainerID: id, Interface: ifName}, info.ModTime()})
	}
	return all, nil
}

// Owner returns whose lease an address has. It returns false if it has none.
func (a *Addresses) Owner(ctx context.Context, address netip.Addr) (ipam.Owner, bool, error) {
	store, err := a.open(ctx)
	if err != nil {
		return ipam.Owner{}, false, err
	}
	defer store.Close() //nolint:errcheck // nothing is left to write but a cache
	id, ifName, leased, err := store.Owner(address.AsSlice())
	return ipam.Owner{ContainerID: id, Interface: ifName}, leased, err
}

// Add makes the lease of a reserved address. That of the same owner is no error.
func (a *Addresses) Add(ctx context.Context, address netip.Addr, owner ipam.Owner) error {
	if err := a.useDataDir(); err != nil {
		return err
	}
	store, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer store.Close() //nolint:errcheck // nothing is left to write but a cache
	made, err := store.Create(owner.ContainerID, owner.Interface, address.AsSlice())
	if err != nil || made {
		return err
	}
	id, ifName, _, err := store.Owner(address.AsSlice())
	if holder := (ipam.Owner{ContainerID: id, Interface: ifName}); err == nil && holder != owner {
		err = &HeldError{Address: address, Owner: holder}
	}
	return err
}

// Remove removes the lease of a reserved address if it is this owner's.
func (a *Addresses) Remove(ctx context.Context, address netip.Addr, owner ipam.Owner) error {
	store, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer store.Close() //nolint:errcheck // nothing is left to write but a cache
	_, err = store.Remove(owner.ContainerID, owner.Interface, address.AsSlice())
	return err
}

// Forget removes the history of a block. The lease lock is held.
func (a *Addresses) Forget(b ipam.Block) error {
	err := os.Remove(filepath.Join(a.dir, ipam.BlockName(b)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
