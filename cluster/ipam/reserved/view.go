// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package reserved

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"time"

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

// view is what the store has of a pool's reserved addresses.
type view map[netip.Addr]*entry

// at returns an entry, one with index 0 if there is none.
func (v view) at(address netip.Addr) *entry {
	if e := v[address]; e != nil {
		return e
	}
	return &entry{}
}

// readTrusted is refresh for decisions by entries that are not read again before. The index proves that an entry is
// as it is remembered only as long as the store has answered all the time: one that was restored on new servers counts
// on from the snapshot's.
func (s *session) readTrusted(ctx context.Context) error {
	trusted := s.a.trusted.Swap(false)
	err := s.refresh(ctx, trusted)
	s.a.trusted.Store(err == nil)
	return err
}

// refresh reads the entries that have changed, or all, and compares them with what is remembered.
func (s *session) refresh(ctx context.Context, changedOnly bool) error {
	listing, err := s.store.List(ctx, ipam.AddressesPrefix(s.a.o.Config.Pool), 0)
	if err != nil {
		return err
	}
	before := *s.memory
	old, restored := maps.Clone(before.Entries), listing.Index < before.Highest
	s.view, s.memory.Entries, s.memory.Highest = view{}, map[netip.Addr]rememberedEntry{}, listing.Index
	for _, listed := range listing.Entries {
		p, err := ipam.ParsePath(listed.Path)
		if err != nil || !p.Address.IsValid() {
			continue // it governs no address
		}
		last := old[p.Address]
		delete(old, p.Address)
		restored = restored || listed.Index < last.Index
		if changedOnly && listed.Index == last.Index {
			s.see(last.Content, last.Index)
		} else if _, err := s.reread(ctx, p.Address); err != nil {
			*s.memory = before
			return err
		}
	}
	for address, last := range old {
		s.seeMissing(address, last)
	}
	if restored {
		s.memory.Restored = s.now()
		s.a.o.Logger.Warn("the store was restored from a snapshot: no reserved address is taken for a while", "for", settle)
	}
	return s.a.records.remember(s.memory)
}

func (s *session) see(content ipam.AddressContent, index uint64) {
	s.memory.Entries[content.Address] = rememberedEntry{Index: index, Content: content}
	s.view[content.Address] = &entry{index: index, content: content}
}

// seeMissing notes an entry that is missing, for a while: its holder may find that the store was
// restored.
func (s *session) seeMissing(address netip.Addr, e rememberedEntry) {
	now := s.now()
	if e.Missing.IsZero() || e.Missing.After(now) {
		e.Missing = now
	}
	if now.Sub(e.Missing) < settle {
		s.memory.Entries[address] = e
		s.view[address] = &entry{missing: e.Missing}
	}
}

func (s *session) reread(ctx context.Context, address netip.Addr) (*entry, error) {
	got, err := s.store.Get(ctx, ipam.AddressPath(s.a.o.Config.Pool, address))
	if errors.Is(err, ipam.ErrNotFound) {
		if before := s.view.at(address); before.index != 0 { // it has vanished since
			s.view[address] = &entry{}
			s.seeMissing(address, rememberedEntry{})
		}
		return s.view.at(address), nil
	}
	if err != nil {
		return nil, err
	}
	content, err := ipam.DecodeAddress(got.Content, s.a.o.Config)
	if err == nil && content.Address != address {
		err = errors.New("it is that of " + content.Address.String())
	}
	if err != nil {
		delete(s.memory.Entries, address) // it is read each time
		s.view[address] = &entry{index: got.Index, err: err}
	} else {
		s.see(content, got.Index)
	}
	return s.view[address], nil
}

// settling returns for how long the store counts as restored a moment ago.
func (s *session) settling() time.Duration {
	now := s.now()
	if s.memory.Restored.After(now) { // the clock was set back
		s.memory.Restored = now
	}
	if s.memory.Restored.IsZero() {
		return 0
	}
	return max(0, settle-now.Sub(s.memory.Restored))
}
