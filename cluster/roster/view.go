// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package roster

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/containernetworking/cni/pkg/utils"
	"golang.org/x/sync/errgroup"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/isolation"
)

// view is what was read of a pool in the store.
type view struct {
	config *ipam.Config
	// reads is how many entries are read at a time.
	reads int
	// index is that of the last listing. 0: there is none. isCurrent: nothing has failed since.
	index     uint64
	isCurrent bool
	// written is the index of this host's last change.
	written uint64
	// listed are the indexes of its entries, and entries what was read of them, by path.
	listed  map[string]uint64
	entries map[string]entry
	// abandoned is since when pieces are no host's.
	abandoned map[string]time.Time
}

// entry is what was read at a path.
type entry struct {
	index uint64
	// members are those of a piece. Nil: the content is of no use.
	members *ipam.MembersContent
	// owner is the instance that has a block. Empty: none is known.
	owner string
	// read is when it was.
	read time.Time
	// doubted: the store has not answered since it was read.
	doubted bool
}

func newView(c *ipam.Config) view {
	return view{config: c, reads: mostReads, listed: map[string]uint64{}, entries: map[string]entry{}, abandoned: map[string]time.Time{}}
}

// doubt has all read again, a few at a time: a store that has not answered may have been restored on new servers, which count on from the
// index of the snapshot.
func (v *view) doubt() {
	v.isCurrent = false
	for path, e := range v.entries {
		e.doubted = true
		v.entries[path] = e
	}
}

// list lists the entries of the pool. It waits for a change if nothing has failed. A listing with a lower index than the last one is that of a
// store that was restored, or of a server that is behind.
func (v *view) list(ctx context.Context, store ipam.Store) (isRestored bool, err error) {
	after, from := uint64(0), store
	if v.index > 0 {
		from = ipam.Stale(store)
	}
	if v.isCurrent {
		after = v.index
	}
	prefix := ipam.PoolPrefix(v.config.Pool)
	listing, err := from.List(ctx, prefix, after)
	newest := max(v.index, v.written)
	if err == nil && listing.Index < newest {
		listing, err = store.List(ctx, prefix, 0)
	}
	if err != nil {
		return false, err
	}
	if isRestored = listing.Index < newest; isRestored {
		v.entries, v.written = map[string]entry{}, 0
	}
	v.index, v.isCurrent, v.listed = listing.Index, true, map[string]uint64{}
	for _, e := range listing.Entries {
		v.listed[e.Path] = e.Index
	}
	// What this host has written since is newer than the listing.
	maps.DeleteFunc(v.entries, func(path string, e entry) bool { return v.listed[path] == 0 && e.index <= listing.Index })
	return isRestored, nil
}

// mostDoubted is how many entries are read again after a listing in which they have not changed.
const mostDoubted = 16

// mostReads is how many entries are read at a time.
const mostReads = 8

// read reads what has changed: the entries of pieces, and those that say whose they are.
func (v *view) read(ctx context.Context, store ipam.Store, now time.Time) error {
	var changed []string
	doubted := 0
	for _, path := range v.needed() {
		known, ok := v.entries[path]
		isNew := !ok || known.index < v.listed[path]
		if !isNew && known.doubted && doubted < mostDoubted {
			doubted++
			isNew = true
		}
		if isNew {
			changed = append(changed, path)
		}
	}
	group, limited := errgroup.WithContext(ctx)
	group.SetLimit(v.reads)
	var mu sync.Mutex // guards what was read
	got := map[string]entry{}
	for _, path := range changed {
		group.Go(func() error {
			e, err := v.get(limited, store, path, now)
			if err == nil {
				mu.Lock()
				defer mu.Unlock()
				got[path] = e
			}
			return err
		})
	}
	err := cmp.Or(group.Wait(), context.Cause(ctx))
	for path, e := range got {
		if e.index == 0 { // it is gone since it was listed
			delete(v.entries, path)
			continue
		}
		v.entries[path] = e
	}
	v.isCurrent = v.isCurrent && err == nil
	return err
}

// needed are the paths of all pieces and blocks that are listed.
func (v *view) needed() (paths []string) {
	for path := range v.listed {
		if p, err := ipam.ParsePath(path); err == nil && (p.Block.IsValid() || p.Piece.IsValid()) {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}

// get reads an entry. One that is gone has no index.
func (v *view) get(ctx context.Context, store ipam.Store, path string, now time.Time) (entry, error) {
	got, err := ipam.Stale(store).Get(ctx, path)
	if errors.Is(err, ipam.ErrNotFound) || err == nil && got.Index < v.listed[path] {
		got, err = store.Get(ctx, path)
	}
	if errors.Is(err, ipam.ErrNotFound) {
		return entry{}, nil
	}
	if err != nil {
		return entry{}, err
	}
	return v.decode(got, now), nil
}

// decode reads what is of use of an entry, which another host has written.
func (v *view) decode(got ipam.Entry, now time.Time) entry {
	e := entry{index: got.Index, read: now}
	p, err := ipam.ParsePath(got.Path)
	switch {
	case err != nil:
	case p.Piece.IsValid():
		if content, err := ipam.DecodeMembers(got.Content, v.config, p.Piece); err == nil {
			e.members = &content
		}
	case p.Block.IsValid():
		if content, err := ipam.DecodeBlock(got.Content, v.config); err == nil && content.Block == p.Block {
			e.owner = content.Host.Instance
		}
	}
	return e
}

// mostText limits each text of an entry, in bytes: all of them are kept.
const mostText = 256

// remotes returns what other hosts than an instance say of their own pieces.
func (v *view) remotes(instance string) (all []isolation.Remote) {
	for _, path := range slices.Sorted(maps.Keys(v.entries)) {
		e := v.entries[path]
		if e.members == nil || e.members.Instance == instance || v.ownerOf(e.members) != e.members.Instance {
			continue
		}
		confirmed := e.members.Written
		if e.read.Before(confirmed) {
			confirmed = e.read
		}
		for _, g := range e.members.Groups {
			level := isolation.Level(g.Level)
			if len(g.Addresses) == 0 || !isLevel(level) || slices.ContainsFunc([]string{g.Network, g.Namespace, g.Job, g.Group}, isLong) {
				continue
			}
			if utils.ValidateNetworkName(g.Network) != nil { // a listing of nftables has it, and is loaded again
				continue
			}
			all = append(all, isolation.Remote{
				Host: host(e.members), Network: g.Network, Level: level, Namespace: g.Namespace, Job: g.Job, Group: g.Group, Index: g.Index,
				Addresses: g.Addresses, Confirmed: confirmed.UTC().Truncate(time.Second),
			})
		}
	}
	return all
}

func isLong(text string) bool { return len(text) > mostText }

func isLevel(l isolation.Level) bool {
	return l == isolation.None || l == isolation.Network || l == isolation.Strict
}

// ownerOf returns the instance that may speak for a piece. Empty: none.
func (v *view) ownerOf(m *ipam.MembersContent) string {
	return v.entries[v.governor(m.Piece)].owner
}

// governor is the path of the entry that says whose a piece is. Empty: it is no piece of the pool.
func (v *view) governor(piece netip.Prefix) string {
	block, ok := v.config.BlockOfPiece(piece)
	if !ok {
		return ""
	}
	return ipam.BlockPath(v.config.Pool, block)
}

// host is what people call the author of an entry.
func host(m *ipam.MembersContent) string {
	if m.Node == "" || isLong(m.Node) {
		return m.Instance
	}
	return m.Node
}
