// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package roster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/allocnet/allocnet/cluster/ipam"
)

// modelStore is a store that loses answers, answers late and out of date, and is restored. Lists do not wait.
type modelStore struct {
	random *rand.Rand
	// versions are all that it had since it was made or restored, the last one being what it has.
	versions []map[string]ipam.Entry
	index    uint64
}

func newModelStore(random *rand.Rand) *modelStore {
	return &modelStore{random: random, versions: []map[string]ipam.Entry{{}}, index: 100}
}

func (s *modelStore) now() map[string]ipam.Entry { return s.versions[len(s.versions)-1] }

// set changes an entry; nil: it is removed.
func (s *modelStore) set(path string, content []byte) uint64 {
	s.index++
	next := maps.Clone(s.now())
	if delete(next, path); content != nil {
		next[path] = ipam.Entry{Path: path, Content: content, Index: s.index}
	}
	s.versions = append(s.versions, next)
	return s.index
}

// restore makes the store what it was some versions ago, on new servers, which may count on from the index of that time.
func (s *modelStore) restore(age int) {
	old := s.versions[max(0, len(s.versions)-1-age)]
	s.index = 1
	for _, e := range old {
		s.index = max(s.index, e.Index)
	}
	s.versions = []map[string]ipam.Entry{old}
}

// modelClient is the store as one host has it.
type modelClient struct {
	*modelStore
	host *modelHost
	// stale is whether reads may be old.
	stale bool
}

var _ ipam.Store = modelClient{}

func (c modelClient) Stale() ipam.Store { return modelClient{c.modelStore, c.host, true} }

var errLost = errors.New("no answer")

// fails is whether a request, or its answer, is lost.
func (c modelClient) fails() bool {
	return c.host.isPartitioned || c.host.faults && c.random.IntN(8) == 0
}

// read is what the store has, or had shortly before.
func (c modelClient) read() (map[string]ipam.Entry, uint64) {
	at := len(c.versions) - 1
	if c.stale && c.host.faults {
		at = max(0, at-c.random.IntN(4))
	}
	// The index of a listing is that of its last change.
	index := c.index - uint64(len(c.versions)-1-at)
	return c.versions[at], max(index, 1)
}

func (c modelClient) Get(_ context.Context, path string) (ipam.Entry, error) {
	if c.fails() {
		return ipam.Entry{}, errLost
	}
	all, _ := c.read()
	e, ok := all[path]
	if !ok {
		return e, ipam.ErrNotFound
	}
	return e, nil
}

func (c modelClient) List(_ context.Context, prefix string, _ uint64) (ipam.Listing, error) {
	if c.fails() {
		return ipam.Listing{}, errLost
	}
	all, index := c.read()
	l := ipam.Listing{Index: index}
	for _, path := range slices.Sorted(maps.Keys(all)) {
		if strings.HasPrefix(path, prefix) {
			l.Entries = append(l.Entries, ipam.Entry{Path: path, Index: all[path].Index})
		}
	}
	return l, nil
}

func (c modelClient) change(path string, content []byte, index uint64) (uint64, error) {
	if c.fails() {
		return 0, errLost
	}
	if e, ok := c.now()[path]; e.Index != index && (ok || content != nil) {
		return 0, fmt.Errorf("%s: %w", path, ipam.ErrConflict)
	}
	made := c.set(path, content)
	if c.fails() { // the answer is lost
		return 0, errLost
	}
	return made, nil
}

func (c modelClient) Create(_ context.Context, path string, content []byte) (uint64, error) {
	return c.change(path, content, 0)
}

func (c modelClient) Update(_ context.Context, path string, content []byte, index uint64) (uint64, error) {
	return c.change(path, content, index)
}

func (c modelClient) Delete(_ context.Context, path string, index uint64) error {
	_, err := c.change(path, nil, index)
	return err
}
