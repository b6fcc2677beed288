// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package block

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/internal/files"
)

const (
	viewFile = "view.json"
	// viewVersion is that of view.json. It rises with every change of what it has. Files of before it have none.
	viewVersion = 1
	// mostPast are the claims that this host has given up and still recognizes. What is older
	// is found by Reclaim.
	mostPast = 256
	// silentFor is for how long a silent host is remembered. One that is asked for then begins anew.
	silentFor = 90 * 24 * time.Hour
)

// view is what a host saw of the pool's blocks when it last listed them.
type view struct {
	Version int `json:"version"`
	// Index is the highest of a listing since the store was last restored.
	Index uint64 `json:"index"`
	// Seen are the indexes of all entries by path, but those of the host's records.
	Seen map[string]uint64 `json:"seen"`
	// Gone is when entries of Seen were found to be missing.
	Gone map[string]moment `json:"gone"`
	// Restored is when the store was found to be restored from a snapshot.
	Restored moment `json:"restored"`
	// Past are claims of this host whose records it has dropped. A late write, or a snapshot,
	// may bring them back.
	Past []past `json:"past"`
	// Unused are entries that the host may adopt, and Useless those that it may delete, if
	// they are the same later.
	Unused  suspects `json:"unused"`
	Useless suspects `json:"useless"`
	// Silent are the entries of hosts, since when they have been as they are.
	Silent suspects `json:"silent,omitempty"`
	// Former are the paths of blocks that this node had before its state was lost.
	Former []string `json:"former,omitempty"`
	// entries are those of the last listing, by path.
	entries map[string]uint64
	// dir has the file, and written is its content.
	dir     disk
	written []byte
}

type past struct {
	Path  string `json:"path"`
	Claim string `json:"claim"`
}

type suspects map[string]suspect

// suspect is an entry, and when it was first seen so.
type suspect struct {
	Index uint64 `json:"index"`
	At    moment `json:"at"`
}

func readView(dir disk, now moment) (*view, error) {
	data, err := dir.read(viewFile)
	if err != nil {
		return nil, err
	}
	v := &view{}
	if data != nil {
		err = files.DecodeVersion(data, viewVersion, v)
	}
	switch {
	case errors.Is(err, files.ErrLater):
		return nil, fmt.Errorf("%s: %w: until then no block is claimed or given back", dir.pathOf(viewFile), err)
	case err != nil:
		v = &view{Restored: now} // what was seen is not known
	}
	v.Version, v.dir, v.written = viewVersion, dir, data
	if v.Gone == nil {
		v.Gone = map[string]moment{}
	}
	for _, all := range []*suspects{&v.Unused, &v.Useless, &v.Silent} {
		if *all == nil {
			*all = suspects{}
		}
	}
	v.rebase(now)
	return v, nil
}

// rebase lets what was noticed in an earlier boot be noticed now: the clock may have changed.
func (v *view) rebase(now moment) {
	for path, at := range v.Gone {
		if at.Boot != now.Boot {
			v.Gone[path] = now
		}
	}
	for _, all := range []suspects{v.Unused, v.Useless, v.Silent} {
		for path, s := range all {
			if s.At.Boot != now.Boot {
				all[path] = suspect{s.Index, now}
			}
		}
	}
	if !v.Restored.isZero() && v.Restored.Boot != now.Boot {
		v.Restored = now
	}
}

// had notes that this node had a block before its state was lost.
func (v *view) had(path string) {
	if !slices.Contains(v.Former, path) {
		v.Former = append(v.Former, path)
	}
}

func (v *view) write() error {
	data, err := json.Marshal(v)
	if err != nil || bytes.Equal(data, v.written) {
		return err
	}
	v.written = data
	return v.dir.write(viewFile, data)
}

// look lists the blocks of the pool, and notes what has changed since the last listing.
func (s *session) look(ctx context.Context) error {
	listing, err := s.store.List(ctx, ipam.BlocksPrefix(s.l.Config.Pool), 0)
	if err != nil {
		return err
	}
	own := map[string]uint64{} // 0 for those that are given back
	for _, r := range s.records.Blocks {
		switch r.State {
		case Held:
			own[s.path(r.Block)] = r.Index
		case Releasing:
			own[s.path(r.Block)] = 0
		}
	}
	s.now = s.l.machine.moment(s.host.Boot)
	s.view.update(listing, s.now, own)
	return s.view.write()
}

// update compares a listing with the last one. own are the indexes of this host's blocks by path.
func (v *view) update(listing ipam.Listing, now moment, own map[string]uint64) {
	v.entries = make(map[string]uint64, len(listing.Entries))
	seen := make(map[string]uint64, len(listing.Entries))
	restored := listing.Index < v.Index
	for _, e := range listing.Entries {
		v.entries[e.Path] = e.Index
		restored = restored || e.Index < v.Seen[e.Path]
		delete(v.Gone, e.Path)
		if _, ok := own[e.Path]; !ok {
			seen[e.Path] = e.Index
		}
	}
	for path, index := range own {
		restored = restored || v.entries[path] < index
	}
	v.forget(now)
	for path := range v.Seen {
		if _, ok := v.entries[path]; !ok {
			v.Gone[path] = now
		}
	}
	if v.Index, v.Seen = listing.Index, seen; restored {
		v.Restored = now
	}
}

// forget removes what was noticed so long ago that it does not count any more.
func (v *view) forget(now moment) {
	maps.DeleteFunc(v.Silent, func(_ string, s suspect) bool { return now.older(silentFor, s.At) })
	maps.DeleteFunc(v.Gone, func(_ string, at moment) bool { return !now.within(settle, at) })
}

// free returns why a slot may not be claimed now. Nil: it may.
func (v *view) free(now moment, path string, wait time.Duration) error {
	switch {
	case now.within(wait, v.Restored):
		return fmt.Errorf("%w: the store was restored from a snapshot: blocks are claimed %s after that was found", ipam.ErrExhausted, wait)
	case now.within(wait, v.Gone[path]):
		return fmt.Errorf("%w: another host had the block until now: it is claimed %s after that", ipam.ErrExhausted, wait)
	}
	return nil
}
