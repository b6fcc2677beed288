// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netns

import (
	"errors"
	"sync"
	"time"
)

// Finder finds namespaces by what refers to them. The zero value is usable, also concurrently.
type Finder struct {
	mu sync.Mutex
	// paths lead to the namespaces that were found at a time, by ID.
	paths map[string]string
	at    time.Time
	// unseen is what could not be looked into.
	unseen error
}

// searchAge is how old a search may be: clocks are set back.
const searchAge = 5 * time.Second

// Find opens the namespace that has an ID and exists since a time, if a thread, a mount in any mount namespace or
// an open descriptor refers to it. Else the error is a *MissingError, joined with those of what could not be looked
// into. What was not there when the host was last searched does not come back, so that many that are missing cost one search.
func (f *Finder) Find(id string, since time.Time) (*Namespace, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	searched := false
	if !f.at.After(since) || time.Since(f.at) > searchAge {
		f.search()
		searched = true
	}
	for {
		path, ok := f.paths[id]
		if !ok {
			return nil, errors.Join(&MissingError{id, "nothing refers to it"}, f.unseen)
		}
		n, err := Open(path)
		if err == nil && n.ID() == id {
			return n, nil
		}
		if err == nil {
			_ = n.Close() // another one
		}
		if searched {
			return nil, errors.Join(&MissingError{id, "what referred to it has ended"}, f.unseen)
		}
		f.search() // the path has changed its meaning
		searched = true
	}
}

// search looks into all namespaces of the host.
func (f *Finder) search() {
	f.paths, f.at = map[string]string{}, time.Now()
	s := search{places: map[uint64]*Place{}}
	s.look = func(path string, inode uint64) (*Place, error) {
		n, err := Open(path)
		if errors.Is(err, ErrMissing) {
			return nil, nil //nolint:nilnil // it is not there any more
		}
		if err != nil {
			return nil, err
		}
		defer n.Close() //nolint:errcheck // only looked into
		if n.Inode() != inode {
			return nil, nil //nolint:nilnil // another one
		}
		f.paths[n.ID()] = path
		return &Place{}, nil
	}
	s.processes()
	f.unseen = s.unseen()
}
