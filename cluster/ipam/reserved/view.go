// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package reserved

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/allocnet/allocnet/cluster/ipam"
)

// settle is for how long no address is taken after the store was restored from a snapshot:
// the other hosts need time to find out that entries of theirs are missing.
const settle = 30 * time.Second

// memory is what this host remembers of the store's entries. It saves to read again what
// has not changed, and shows that the store was restored.
type memory struct {
	Version int `json:"version"`
	// Highest is the highest index of a listing.
	Highest uint64 `json:"highest"`
	// Restored is when it was noticed that the store was restored.
	Restored time.Time `json:"restored,omitzero"`
	// Entries are as they were read last.
	Entries map[netip.Addr]rememberedEntry `json:"entries"`
	// Gone are the nodes that are gone, and when that was seen first.
	Gone map[string]time.Time `json:"gone"`
	// Unused are the addresses of an earlier state directory of this node, or of this host
	// without a record, that were found unused, and when that was seen first.
	Unused map[netip.Addr]time.Time `json:"unused"`
}

type rememberedEntry struct {
	Index   uint64              `json:"index"`
	Content ipam.AddressContent `json:"content"`
	// Missing is since when there is none.
	Missing time.Time `json:"missing,omitzero"`
}

type entry struct {
	// index is 0 if there is none.
	index   uint64
	content ipam.AddressContent
	// err is why the content cannot be read.
	err error
	// missing is since when an entry that this host has seen is missing.
	missing time.Time
}

// isHeld is not true of what cannot be read: it is used by an unknown host.
func (e *entry) isHeld() bool { return e.err == nil && e.content.State == ipam.Held }

func (e *entry) isFree() bool { return e.err == nil && e.content.State == ipam.Free }

// view is what the store has of a pool's reserved addresses. Without a refresh it has those that were read.
type view struct {
	pool    *ipam.Config
	store   ipam.Store
	records records
	memory  *memory
	entries map[netip.Addr]*entry
	now     clock
	logger  hclog.Logger
}

func newView(a *Addresses, store ipam.Store, m *memory) *view {
	if m.Entries == nil {
		m.Entries = map[netip.Addr]rememberedEntry{}
	}
	if m.Gone == nil {
		m.Gone = map[string]time.Time{}
	}
	if m.Unused == nil {
		m.Unused = map[netip.Addr]time.Time{}
	}
	return &view{a.o.Config, store, a.records, m, map[netip.Addr]*entry{}, a.o.Now, a.o.Logger}
}

// at returns an entry, one with index 0 if there is none.
func (v *view) at(address netip.Addr) *entry {
	if e := v.entries[address]; e != nil {
		return e
	}
	return &entry{}
}

// readTrusted is refresh for decisions by entries that are not read again before. The index proves that an entry is
// as it is remembered only as long as the store has answered all the time: one that was restored on new servers counts
// on from the snapshot's.
func (s *session) readTrusted(ctx context.Context) error {
	trusted := s.a.trusted.Swap(false)
	err := s.view.refresh(ctx, trusted)
	s.a.trusted.Store(err == nil)
	return err
}

// refresh reads the entries that have changed, or all, and compares them with what is remembered.
func (v *view) refresh(ctx context.Context, changedOnly bool) error {
	listing, err := v.store.List(ctx, ipam.AddressesPrefix(v.pool.Pool), 0)
	if err != nil {
		return err
	}
	before := *v.memory
	old, restored := maps.Clone(before.Entries), listing.Index < before.Highest
	v.entries, v.memory.Entries, v.memory.Highest = map[netip.Addr]*entry{}, map[netip.Addr]rememberedEntry{}, listing.Index
	for _, listed := range listing.Entries {
		p, err := ipam.ParsePath(listed.Path)
		if err != nil || !p.Address.IsValid() {
			continue // it governs no address
		}
		last := old[p.Address]
		delete(old, p.Address)
		restored = restored || listed.Index < last.Index
		if changedOnly && listed.Index == last.Index {
			v.see(last.Content, last.Index)
		} else if _, err := v.reread(ctx, p.Address); err != nil {
			*v.memory = before
			return err
		}
	}
	for address, last := range old {
		v.seeMissing(address, last)
	}
	if restored {
		v.memory.Restored = v.now()
		v.logger.Warn("the store was restored from a snapshot: no reserved address is taken for a while", "for", settle)
	}
	return v.records.remember(v.memory)
}

func (v *view) see(content ipam.AddressContent, index uint64) {
	v.memory.Entries[content.Address] = rememberedEntry{Index: index, Content: content}
	v.entries[content.Address] = &entry{index: index, content: content}
}

// seeMissing notes an entry that is missing, for a while: its holder may find that the store was
// restored.
func (v *view) seeMissing(address netip.Addr, e rememberedEntry) {
	now := v.now()
	if e.Missing.IsZero() || e.Missing.After(now) {
		e.Missing = now
	}
	if now.Sub(e.Missing) < settle {
		v.memory.Entries[address] = e
		v.entries[address] = &entry{missing: e.Missing}
	}
}

func (v *view) reread(ctx context.Context, address netip.Addr) (*entry, error) {
	got, err := v.store.Get(ctx, ipam.AddressPath(v.pool.Pool, address))
	if errors.Is(err, ipam.ErrNotFound) {
		if v.at(address).index != 0 { // it has vanished since
			v.entries[address] = &entry{}
			v.seeMissing(address, rememberedEntry{})
		}
		return v.at(address), nil
	}
	if err != nil {
		return nil, err
	}
	content, err := ipam.DecodeAddress(got.Content, v.pool)
	if err == nil && content.Address != address {
		err = errors.New("it is that of " + content.Address.String())
	}
	if err != nil {
		delete(v.memory.Entries, address) // it is read each time
		v.entries[address] = &entry{index: got.Index, err: err}
	} else {
		v.see(content, got.Index)
	}
	return v.entries[address], nil
}

// settling returns for how long the store counts as restored a moment ago.
func (v *view) settling() time.Duration {
	now := v.now()
	if v.memory.Restored.After(now) { // the clock was set back
		v.memory.Restored = now
	}
	if v.memory.Restored.IsZero() {
		return 0
	}
	return max(0, settle-now.Sub(v.memory.Restored))
}

// errOvertaken is an entry that is not as it was read: the write was not made.
var errOvertaken = errors.New("another host has changed the entry")

// save writes an entry that is at an index, 0 for none, and returns its new index. After a
// conflict the view has the entry as it is. An error but errOvertaken and ipam.ErrRefused
// leaves the outcome unknown.
func (v *view) save(ctx context.Context, content ipam.AddressContent, index uint64) (uint64, error) {
	path, data := ipam.AddressPath(content.Pool, content.Address), ipam.Encode(content)
	var err error
	if index == 0 {
		index, err = v.store.Create(ctx, path, data)
	} else {
		index, err = v.store.Update(ctx, path, data, index)
	}
	if errors.Is(err, ipam.ErrConflict) || errors.Is(err, ipam.ErrNotFound) {
		return v.compare(ctx, content)
	}
	if err == nil {
		v.see(content, index)
	}
	return index, err
}

// compare returns the index of an entry if it has the content: a request that failed was the
// repetition of one whose answer was lost.
func (v *view) compare(ctx context.Context, content ipam.AddressContent) (uint64, error) {
	e, err := v.reread(ctx, content.Address)
	if err != nil { // also if it is refused: the write may have been made
		return 0, fmt.Errorf("%w: entry of %s: %s", ipam.ErrUnavailable, content.Address, err.Error())
	}
	if e.index == 0 { // it was there when the write was refused: the store was restored since
		v.seeMissing(content.Address, rememberedEntry{})
	}
	if e.index == 0 || e.content.ClaimID != content.ClaimID || e.content.State != content.State {
		return 0, errOvertaken
	}
	return e.index, nil
}

// remove removes the entry of an address that no one holds.
func (v *view) remove(ctx context.Context, address netip.Addr, e *entry) error {
	if e.err != nil {
		return e.err
	}
	err := v.store.Delete(ctx, ipam.AddressPath(v.pool.Pool, address), e.index)
	if errors.Is(err, ipam.ErrConflict) {
		return errOvertaken
	}
	if err == nil {
		delete(v.memory.Entries, address)
	}
	return err
}

// countOf returns how many addresses of a job the limit counts.
func (v *view) countOf(job ipam.Job) int {
	count := 0
	for _, e := range v.entries {
		if e.index != 0 && sameJob(e.content.Job, job) && !e.content.Reserved {
			count++
		}
	}
	return count
}
