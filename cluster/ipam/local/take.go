// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package local

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"time"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/internal/leases"
)

// Take gives an attachment an address of each family from the blocks that open returns, or
// none. Those that the attachment has already are the same again; made are the others. open is
// called under the lease lock, and only if an address is needed. The error is a FullError if
// there is none.
func (a *Addresses) Take(ctx context.Context, owner ipam.Owner, families []ipam.Family, open func() ([]ipam.Block, error)) (existing, made []netip.Addr, err error) {
	if err := a.useDataDir(); err != nil {
		return nil, nil, err
	}
	store, err := a.open(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer store.Close() //nolint:errcheck // nothing is left to write but a cache
	existing, missing := a.existing(find(store, owner), families)
	if len(missing) == 0 {
		return existing, nil, nil
	}
	blocks, err := open()
	if err != nil {
		return nil, nil, err
	}
	t := &taking{Addresses: a, store: store, owner: owner, time: a.now()}
	defer t.close()
	if err := t.load(blocks, missing); err != nil {
		return nil, nil, err
	}
	if err := t.take(missing); err != nil {
		return nil, nil, errors.Join(err, t.undo())
	}
	for _, c := range t.taken {
		made = append(made, ipam.At(c.block, c.offset))
	}
	return existing, made, nil
}

// existing returns the first address of each family that an attachment has from blocks, and
// the families of which it has none.
func (a *Addresses) existing(found []netip.Addr, families []ipam.Family) (existing []netip.Addr, missing []ipam.Family) {
	for _, f := range families {
		i := slices.IndexFunc(found, func(address netip.Addr) bool {
			return ipam.FamilyOf(address) == f && a.config.Usable(address)
		})
		if i < 0 {
			missing = append(missing, f)
		} else {
			existing = append(existing, found[i])
		}
	}
	return existing, missing
}

// taking is a call of Take, under the lease lock.
type taking struct {
	*Addresses
	store     *leases.Store
	owner     ipam.Owner
	time      time.Time
	histories []*history
	// corrected is whether the histories were compared with the leases.
	corrected bool
	taken     []candidate
}

// candidate is an address that may be given out.
type candidate struct {
	*history
	offset int
	// before is the entry that it had.
	before int64
}

func (t *taking) close() {
	for _, h := range t.histories {
		h.close()
	}
}

// load opens the histories of the blocks of the families, and corrects them. If all leases
// have been read, another program may have changed them.
func (t *taking) load(blocks []ipam.Block, families []ipam.Family) error {
	for _, b := range blocks {
		if !slices.Contains(families, ipam.FamilyOf(b.Addr())) {
			continue
		}
		h, err := openHistory(t.dir, b)
		if err != nil {
			return err
		}
		t.histories = append(t.histories, h)
	}
	if t.store.Fresh() {
		return t.correct()
	}
	for _, h := range t.histories {
		if err := h.normalize(t.time, nil); err != nil {
			return err
		}
	}
	return nil
}

// correct compares the histories with the leases.
func (t *taking) correct() error {
	leased, err := t.leased()
	if err != nil {
		return err
	}
	t.corrected = true
	for _, h := range t.histories {
		if err := h.normalize(t.time, h.leased(leased)); err != nil {
			return err
		}
	}
	return nil
}

// leased returns the addresses that have a lease. The lease lock is held.
func (a *Addresses) leased() (map[netip.Addr]bool, error) {
	dir, err := a.dataDir()
	if err != nil {
		return nil, err
	}
	ips, err := leases.List(dir, a.config.Pool)
	leased := map[netip.Addr]bool{}
	for _, ip := range ips {
		if address, ok := netip.AddrFromSlice(ip); ok {
			leased[address.Unmap()] = true
		}
	}
	return leased, err
}

// leased returns the function that tells whether an address of the block is among them.
func (h *history) leased(all map[netip.Addr]bool) func(offset int) bool {
	return func(offset int) bool { return all[ipam.At(h.block, offset)] }
}

func (t *taking) take(families []ipam.Family) error {
	full := &FullError{Pool: t.config.Pool}
	for _, f := range families {
		made, err := t.takeOne(f)
		if err == nil && !made && !t.corrected {
			if err = t.correct(); err == nil {
				made, err = t.takeOne(f)
			}
		}
		if err != nil {
			return err
		}
		if !made {
			t.count(f, full)
		}
	}
	if len(full.Families) > 0 {
		return full
	}
	return nil
}

func (t *taking) takeOne(f ipam.Family) (bool, error) {
	for {
		c, ok := t.next(f)
		if !ok {
			return false, nil
		}
		if made, err := t.lease(c); made || err != nil {
			return made, err
		}
	}
}

func (t *taking) of(f ipam.Family) []*history {
	return slices.DeleteFunc(slices.Clone(t.histories), func(h *history) bool { return ipam.FamilyOf(h.block.Addr()) != f })
}

// lease makes the lease of an address. It returns false if the address has one, of another
// program.
func (t *taking) lease(c candidate) (bool, error) {
	if err := c.set(c.offset, inUse); err != nil {
		return false, err
	}
	made, err := t.store.Create(t.owner.ContainerID, t.owner.Interface, ipam.At(c.block, c.offset).AsSlice())
	switch {
	case err != nil:
		return false, errors.Join(err, c.set(c.offset, c.before))
	case made:
		t.taken = append(t.taken, c)
	}
	return made, nil
}

// next returns the address of a family to give out: one that was never used, or the one that
// was freed least recently. It returns false if there is none.
func (t *taking) next(f ipam.Family) (best candidate, ok bool) {
	for _, h := range t.of(f) {
		for offset := range t.config.Offsets(h.block) {
			entry := h.entries[offset]
			if ready, free := h.ready(offset, t.config.Cooldown); !free || ready.After(t.time) {
				continue
			}
			if entry == 0 {
				return candidate{h, offset, entry}, true
			}
			if !ok || order(entry) < order(best.before) {
				best, ok = candidate{h, offset, entry}, true
			}
		}
	}
	return best, ok
}

// count tells of a family without a free address what it has.
func (t *taking) count(f ipam.Family, full *FullError) {
	full.Families = append(full.Families, f)
	for _, h := range t.of(f) {
		full.Blocks++
		for offset := range t.config.Offsets(h.block) {
			ready, free := h.ready(offset, t.config.Cooldown)
			if !free {
				continue
			}
			full.Cooling++
			if full.Next.IsZero() || ready.Before(full.Next) {
				full.Next = ready
			}
		}
	}
}

// undo gives back what was taken. The addresses were not used, so they need not cool down.
func (t *taking) undo() error {
	var errs []error
	for _, c := range t.taken {
		errs = append(errs, c.set(c.offset, c.before), remove(t.store, t.owner, ipam.At(c.block, c.offset)))
	}
	return errors.Join(errs...)
}
