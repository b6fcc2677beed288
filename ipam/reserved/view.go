// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package reserved

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"github.com/allocnet/allocnet/ipam"
)

// settle is for how long no address is taken after the store was restored from a snapshot:
// the other hosts need time to find out that entries of theirs are missing.
const settle = 30 * time.Second

// memory is what this host remembers of the store's entries. It saves to read again what
// has not changed, and shows that the store was restored.
type memory struct {
	// Highest is the highest index of a listing.
	Highest uint64 `json:"highest"`
	// Restored is when it was noticed that the store was restored.
	Restored time.Time         `json:"restored,omitzero"`
	Entries  []rememberedEntry `json:"entries"`
	// Gone are the nodes that are gone, and when that was seen first.
	Gone map[string]time.Time `json:"gone"`
	// Unused are the addresses of an earlier state directory of this node, or of this host
	// without a record, that were found unused, and when that was seen first.
	Unused map[netip.Addr]time.Time `json:"unused"`
}

// rememberedEntry is an entry as it was read last.
type rememberedEntry struct {
	Path    string `json:"path"`
	Index   uint64 `json:"index"`
	Content []byte `json:"content"`
	// Missing is since when there is none.
	Missing time.Time `json:"missing,omitzero"`
}

// entry is an entry of the store.
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

// refresh reads the entries that have changed, and compares them with what is remembered.
func (s *session) refresh(ctx context.Context) error {
	listing, err := s.store.List(ctx, ipam.AddressesPrefix(s.a.o.Config.Pool), 0)
	if err != nil {
		return err
	}
	old := map[string]rememberedEntry{}
	for _, e := range s.memory.Entries {
		old[e.Path] = e
	}
	restored := listing.Index < s.memory.Highest
	s.view, s.memory.Entries, s.memory.Highest = view{}, nil, listing.Index
	for _, listed := range listing.Entries {
		last := old[listed.Path]
		delete(old, listed.Path)
		restored = restored || listed.Index < last.Index
		if listed.Index != last.Index {
			e, err := s.store.Get(ctx, listed.Path)
			if errors.Is(err, ipam.ErrNotFound) {
				continue // it was removed a moment ago
			}
			if err != nil {
				return err
			}
			last = rememberedEntry{Path: listed.Path, Index: e.Index, Content: e.Content}
		}
		s.see(last)
	}
	for _, last := range old {
		s.seeMissing(last)
	}
	if restored {
		s.memory.Restored = s.now()
		s.a.log().Warn("the store was restored from a snapshot: no reserved address is taken for a while", "for", settle)
	}
	return s.a.records.remember(s.memory)
}

func (s *session) see(e rememberedEntry) {
	address, ok := pathAddress(e.Path)
	if !ok {
		return
	}
	e.Missing = time.Time{}
	s.memory.Entries = append(s.memory.Entries, e)
	content, err := ipam.DecodeAddress(e.Content, s.a.o.Config)
	if err == nil && content.Address != address {
		err = errors.New("it is that of " + content.Address.String())
	}
	s.view[address] = &entry{index: e.Index, content: content, err: err}
}

// seeMissing remembers an entry that is missing, for a while: its holder may find that the
// store was restored.
func (s *session) seeMissing(e rememberedEntry) {
	now := s.now()
	if e.Missing.IsZero() || e.Missing.After(now) {
		e.Missing = now
	}
	address, ok := pathAddress(e.Path)
	if !ok || now.Sub(e.Missing) >= settle {
		return
	}
	s.memory.Entries = append(s.memory.Entries, e)
	s.view[address] = &entry{missing: e.Missing}
}

// reread reads one entry again.
func (s *session) reread(ctx context.Context, address netip.Addr) (*entry, error) {
	path := ipam.AddressPath(s.a.o.Config.Pool, address)
	got, err := s.store.Get(ctx, path)
	if errors.Is(err, ipam.ErrNotFound) {
		missing := &entry{missing: s.view.at(address).missing}
		s.view[address] = missing
		return missing, nil
	}
	if err != nil {
		return nil, err
	}
	s.forget(path)
	s.see(rememberedEntry{Path: path, Index: got.Index, Content: got.Content})
	return s.view.at(address), nil
}

// wrote notes what this host wrote.
func (s *session) wrote(content ipam.AddressContent, index uint64) {
	path := ipam.AddressPath(s.a.o.Config.Pool, content.Address)
	s.forget(path)
	s.see(rememberedEntry{Path: path, Index: index, Content: ipam.Encode(content)})
}

func (s *session) forget(path string) {
	kept := s.memory.Entries[:0]
	for _, e := range s.memory.Entries {
		if e.Path != path {
			kept = append(kept, e)
		}
	}
	s.memory.Entries = kept
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
