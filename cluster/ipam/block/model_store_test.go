// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package block

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/allocnet/allocnet/cluster/ipam"
)

// snapshot is what the store has at some time. It is never changed.
type snapshot struct {
	at      time.Duration
	entries map[string]ipam.Entry
	// table is the index of the last change, and index that of the log, which is never less.
	table, index uint64
}

// fakeStore does what Nomad's variables do: a change is checked when it is applied, requests
// and answers get lost, are late or come twice, reads are up to 500 ms old around an election,
// and a snapshot may be restored.
type fakeStore struct {
	*world
	snapshot
	// versions are the contents of the last 500 ms.
	versions []snapshot
	saved    []snapshot
	// pending are requests that were sent.
	pending []*request
	// faults is how many of 100 writes have one.
	faults int
	down   bool
	stale  time.Duration
	ghost  ghost
}

// request is a change that was sent.
type request struct {
	host    *fakeHost
	path    string
	content []byte
	index   uint64
	kind    string
	sent    time.Duration
	// due is when a late request arrives at the earliest.
	due  time.Duration
	done bool
	// previous are the owners of the entry that it changes, and old is that entry.
	previous []*fakeHost
	old      ipam.Entry
	result   uint64
	err      error
}

func (s *fakeStore) Get(_ context.Context, path string) (ipam.Entry, error) {
	state, err := s.read()
	if err != nil {
		return ipam.Entry{}, err
	}
	entry, ok := state.entries[path]
	if !ok {
		return entry, ipam.ErrNotFound
	}
	return entry, nil
}

func (s *fakeStore) List(_ context.Context, prefix string, _ uint64) (ipam.Listing, error) {
	state, err := s.read()
	if err != nil {
		return ipam.Listing{}, err
	}
	l := ipam.Listing{Index: state.table}
	for _, path := range slices.Sorted(maps.Keys(state.entries)) {
		if strings.HasPrefix(path, prefix) {
			l.Entries = append(l.Entries, ipam.Entry{Path: path, Index: state.entries[path].Index})
		}
	}
	return l, nil
}

func (s *fakeStore) Create(_ context.Context, path string, content []byte) (uint64, error) {
	return s.write(&request{kind: "create", path: path, content: content})
}

func (s *fakeStore) Update(_ context.Context, path string, content []byte, index uint64) (uint64, error) {
	return s.write(&request{kind: "update", path: path, content: content, index: index})
}

func (s *fakeStore) Delete(_ context.Context, path string, index uint64) error {
	_, err := s.write(&request{kind: "delete", path: path, index: index})
	return err
}

// refusal is why a host gets no answer.
func (s *fakeStore) refusal(h *fakeHost) error {
	switch {
	case s.down || h.cut:
		return ipam.ErrUnavailable
	case h.refused:
		return ipam.ErrRefused
	}
	return nil
}

// read returns what a reader sees.
func (s *fakeStore) read() (*snapshot, error) {
	p := s.current
	p.step()
	if err := s.refusal(p.host); err != nil {
		return nil, err
	}
	state := s.snapshot
	if s.now < s.stale && s.chance(2) {
		recent := slices.DeleteFunc(slices.Clone(s.versions), func(v snapshot) bool { return v.at < s.now-staleness })
		if len(recent) > 0 {
			state = recent[s.rnd.IntN(len(recent))]
		}
	}
	p.step()
	if s.rnd.IntN(100) < s.faults/4 {
		return nil, ipam.ErrUnavailable
	}
	p.host.answered = s.now
	return &state, nil
}

// write sends a request.
func (s *fakeStore) write(r *request) (uint64, error) {
	p := s.current
	p.step()
	if err := s.refusal(p.host); err != nil {
		return 0, err
	}
	r.host, r.sent = p.host, s.now
	s.logf("%s %s sends %s %s %d", p.host, p.name, r.kind, r.path, r.index)
	s.pending = append(s.pending, r)
	p.step()
	result, err := s.answer(r)
	p.step()
	s.logf("%s %s gets %d, %v", p.host, p.name, result, err)
	return result, err
}

// answer applies a request, or not, and returns what the process gets to know.
func (s *fakeStore) answer(r *request) (uint64, error) {
	if err := s.refusal(r.host); err != nil {
		return 0, ipam.ErrUnavailable // the request may have arrived, and may still
	}
	if s.rnd.IntN(100) >= s.faults {
		s.finish(r)
		return r.result, r.err
	}
	if s.features.partitions && !r.host.cut && s.chance(3) {
		s.toggle(r.host) // that is why there is no answer, and none for a while
	}
	switch s.rnd.IntN(4) {
	case 0: // the request is lost
		s.discard(r)
	case 1: // the answer is lost
		s.finish(r)
	case 2: // the request was sent twice, and the second one is answered
		s.finish(r)
		again := *r
		again.done = false
		s.apply(&again)
		return again.result, again.err
	case 3: // the request is late, and maybe comes twice
		if s.chance(2) {
			r.due = s.now + time.Duration(s.rnd.IntN(120))*time.Second
		}
		if s.chance(2) {
			again := *r
			s.finish(&again)
		}
	}
	return 0, ipam.ErrUnavailable
}

// finish applies a request that is under way.
func (s *fakeStore) finish(r *request) {
	s.discard(r)
	if !r.done {
		s.apply(r)
	}
}

func (s *fakeStore) discard(r *request) {
	s.pending = slices.DeleteFunc(s.pending, func(other *request) bool { return other == r })
}

func (s *fakeStore) apply(r *request) {
	r.done = true
	s.index++ // the log grows with a refused change, too
	old, exists := s.entries[r.path]
	switch {
	case r.kind == "create" && exists, r.kind == "update" && (!exists || old.Index != r.index), r.kind == "delete" && exists && old.Index != r.index:
		r.err = ipam.ErrConflict
		return
	case r.kind == "delete" && !exists:
		return
	}
	entries := maps.Clone(s.entries)
	if r.kind == "delete" {
		delete(entries, r.path)
	} else {
		entries[r.path] = ipam.Entry{Path: r.path, Content: r.content, Index: s.index}
		r.result = s.index
	}
	s.logf("applied: %s %s %d of %s: index %d", r.kind, r.path, r.index, r.host, s.index)
	s.ghost.before(s, r)
	s.replace(snapshot{at: s.now, entries: entries, table: s.index, index: s.index})
	s.ghost.after(s, r)
}

// replace makes another content the present one.
func (s *fakeStore) replace(now snapshot) {
	s.versions = append(s.versions, s.snapshot)
	if len(s.versions) > 8 {
		s.versions = s.versions[1:]
	}
	s.versions[len(s.versions)-1].at = s.now // until when it was the present one
	s.snapshot = now
}

// save makes a snapshot that may be restored.
func (s *fakeStore) save() {
	s.logf("snapshot saved at index %d", s.index)
	s.saved = append(s.saved, s.snapshot)
}

// restore goes back to a snapshot. In the same servers the log goes on; new servers go on from
// the snapshot's index, and what was sent to the old ones is lost.
func (s *fakeStore) restore(saved snapshot, newServers bool) {
	s.logf("restored the snapshot of index %d, new servers: %v", saved.index, newServers)
	old := s.entries
	s.versions = nil
	index := s.index + 1
	if newServers {
		index, s.pending = saved.index+1, nil
	}
	s.replace(snapshot{at: s.now, entries: saved.entries, table: saved.table, index: index})
	s.versions = nil
	s.ghost.restored(s, old)
}
