// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netns

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
)

// Finder finds namespaces by what refers to them. The zero value is usable, also concurrently.
type Finder struct {
	mu sync.Mutex
	// paths lead to the namespaces that were found at a time, by ID.
	paths map[string]string
	// byMAC has the IDs of the namespaces but the caller's in which a MAC is.
	byMAC map[string][]string
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
	searched := f.searchSince(since)
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

// HavingMAC opens the namespaces, but the caller's, that have an interface with a MAC since a time, as far as Find finds
// them. What could not be looked into is no error.
func (f *Finder) HavingMAC(mac string, since time.Time) ([]*Namespace, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	searched := f.searchSince(since)
	found, moved, err := f.openHaving(mac)
	if !moved || searched {
		return found, err
	}
	for _, n := range found {
		_ = n.Close() // found again
	}
	f.search() // unlike a namespace, an interface may be elsewhere by now
	found, _, err = f.openHaving(mac)
	return found, err
}

// openHaving opens the namespaces that had a MAC in the last search. Moved is whether one of them has it no more.
func (f *Finder) openHaving(mac string) (found []*Namespace, moved bool, err error) {
	for _, id := range f.byMAC[mac] {
		n, failed := Open(f.paths[id])
		if errors.Is(failed, ErrMissing) {
			moved = true
			continue
		}
		has := false
		if failed == nil && n.ID() == id {
			var links []netlink.Link
			links, failed = Whole(n.link.LinkList)
			has = slices.ContainsFunc(links, func(l netlink.Link) bool { return l.Attrs().HardwareAddr.String() == mac })
		}
		if has {
			found = append(found, n)
			continue
		}
		if n != nil {
			_ = n.Close() // it is not wanted
		}
		moved, err = true, errors.Join(err, failed)
	}
	return found, moved, err
}

// searchSince searches unless a search after a time is known.
func (f *Finder) searchSince(since time.Time) (searched bool) {
	if f.at.After(since) && time.Since(f.at) <= searchAge {
		return false
	}
	f.search()
	return true
}

func (f *Finder) search() {
	f.paths, f.byMAC, f.at = map[string]string{}, map[string][]string{}, time.Now()
	s := search{places: map[uint64]*Place{}}
	s.look = func(path string, inode uint64) (*Place, error) {
		n, err := Open(path)
		if errors.Is(err, ErrMissing) {
			return nil, nil // it is not there any more
		}
		if err != nil {
			return nil, err
		}
		defer n.Close() //nolint:errcheck // only looked into
		if n.Inode() != inode {
			return nil, nil // another one
		}
		f.paths[n.ID()] = path
		return &Place{}, f.noteMACs(n)
	}
	s.processes()
	f.unseen = s.unseen()
}

func (f *Finder) noteMACs(n *Namespace) error {
	if own, err := n.IsOwn(); own || err != nil {
		return err
	}
	links, err := Whole(n.link.LinkList)
	for _, link := range links {
		mac := link.Attrs().HardwareAddr.String()
		if ids := f.byMAC[mac]; !slices.Contains(ids, n.ID()) {
			f.byMAC[mac] = append(ids, n.ID())
		}
	}
	return err
}
