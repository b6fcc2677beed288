// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package reserved

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/allocnet/allocnet/cluster/ipam"
)

// version is a state of the model's store.
type version struct {
	entries map[string]ipam.Entry
	// index is that of the last change.
	index uint64
}

// modelStore is a store whose requests are lost, doubled, late and refused. What a process
// sees of it is in modelClient.
type modelStore struct {
	*version
	// highest is the last index that was ever used.
	highest uint64
	history []*version
	// late are requests that are still on their way.
	late []func()
}

// change is a write request.
type change struct {
	path    string
	content []byte
	// index is that of the entry as the writer read it; 0: there is none.
	index  uint64
	remove bool
}

// apply does what a request asks for.
func (s *modelStore) apply(c change) (uint64, error) {
	present, ok := s.entries[c.path]
	switch {
	case !ok && c.remove:
		return 0, nil
	case present.Index != c.index:
		return 0, ipam.ErrConflict
	}
	s.highest++
	next := &version{maps.Clone(s.entries), s.highest}
	if c.remove {
		delete(next.entries, c.path)
	} else {
		next.entries[c.path] = ipam.Entry{Path: c.path, Content: c.content, Index: s.highest}
	}
	s.history = append(s.history, s.version)
	s.version = next
	return s.highest, nil
}

// modelClient is the store as a process has it.
type modelClient struct{ *process }

var errLost = errors.New("the answer is lost")

// seen returns what a read sees: during an election it may be an old state.
func (c modelClient) seen() *version {
	s := c.model.store
	if n := len(s.history); n > 0 && c.model.happens(c.model.faults.stale) {
		return s.history[max(0, n-1-c.model.random.IntN(3))]
	}
	return s.version
}

// fault ends a process that is killed, or returns why a read has no answer.
func (c modelClient) fault() error {
	c.yield()
	switch {
	case c.model.happens(c.model.faults.refuse):
		return ipam.ErrRefused
	case c.model.happens(c.model.faults.lose):
		return errors.Join(ipam.ErrUnavailable, errLost)
	}
	return nil
}

func (c modelClient) Get(_ context.Context, path string) (ipam.Entry, error) {
	if err := c.fault(); err != nil {
		return ipam.Entry{}, err
	}
	entry, ok := c.seen().entries[path]
	if !ok {
		return ipam.Entry{}, ipam.ErrNotFound
	}
	return entry, nil
}

func (c modelClient) List(_ context.Context, prefix string, _ uint64) (ipam.Listing, error) {
	if err := c.fault(); err != nil {
		return ipam.Listing{}, err
	}
	seen := c.seen()
	listing := ipam.Listing{Index: seen.index + 1}
	for _, path := range slices.Sorted(maps.Keys(seen.entries)) {
		if strings.HasPrefix(path, prefix) {
			listing.Entries = append(listing.Entries, ipam.Entry{Path: path, Index: seen.entries[path].Index})
		}
	}
	return listing, nil
}

func (c modelClient) Create(_ context.Context, path string, content []byte) (uint64, error) {
	return c.write(change{path: path, content: content})
}

func (c modelClient) Update(_ context.Context, path string, content []byte, index uint64) (uint64, error) {
	return c.write(change{path: path, content: content, index: index})
}

func (c modelClient) Delete(_ context.Context, path string, index uint64) error {
	_, err := c.write(change{path: path, index: index, remove: true})
	return err
}

func (c modelClient) write(w change) (uint64, error) {
	c.yield()
	m, lost := c.model, errors.Join(ipam.ErrUnavailable, errLost)
	late := func() {
		index, err := m.apply(c.host, w)
		if err == nil {
			m.arrived++
		}
		m.trace("late from %s: %s at %d: %d %v", c.name, w.path, w.index, index, err)
	}
	switch {
	case m.happens(m.faults.refuse):
		return 0, ipam.ErrRefused
	case m.happens(m.faults.late):
		m.store.late = append(m.store.late, late)
		return 0, lost
	case m.happens(m.faults.lose):
		return 0, lost
	case m.happens(m.faults.double):
		m.store.late = append(m.store.late, late)
	}
	index, err := m.apply(c.host, w)
	if m.happens(m.faults.double) { // the answer is that of the repetition
		index, err = m.apply(c.host, w)
	}
	m.trace("%s writes %s at %d: %d %v", c.name, w.path, w.index, index, err)
	c.yield()
	if m.happens(m.faults.lose) {
		return 0, lost
	}
	return index, err
}
