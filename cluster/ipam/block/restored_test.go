// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package block

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/allocnet/allocnet/cluster/ipam"
)

// TestRestoredWhileReleasing: a host whose state directory is of before it gave a block back has that
// block when the request to delete it arrives late.
func TestRestoredWhileReleasing(t *testing.T) {
	w, h := quietWorld(t)
	h.save()
	w.del(h, h.namespaces...)
	w.quiet(1)
	release := func() { _, _ = h.agent.Release(context.Background(), 0, 0) }
	w.start(h, "release", release)
	w.drain()
	w.now += settle
	h.agent = h.open() // it does not renew the nonce first
	late := w.interrupted(h, release)
	if late.kind != "delete" {
		t.Fatalf("the first change is %+v", late)
	}
	h.files = maps.Clone(h.backup)
	w.quiet(1)
	if !w.added(h) || len(h.records().Blocks) != 1 {
		t.Fatalf("the host has %+v", h.records().Blocks)
	}
	w.store.finish(late)
	if w.count() != 1 {
		t.Error("the block of which the host gives out addresses is not in the store any more")
	}
}

// interrupted kills a process when it has sent its first change, which is under way for long.
func (w *world) interrupted(h *fakeHost, run func()) *request {
	w.start(h, "interrupted", run)
	p := w.processes[0]
	for len(w.store.pending) == 0 && !p.ended {
		w.run(p)
	}
	w.kill(p)
	late := w.store.pending[0]
	late.due = w.now + time.Hour
	return late
}

// TestReclaimedLate: a host that was silent for so long that its block is reclaimed, and answers again,
// has that block when the request to delete it arrives late.
func TestReclaimedLate(t *testing.T) {
	w, h := quietWorld(t)
	other := w.hosts[1]
	w.toggle(h)
	w.purged[h.self.NodeID] = true
	for _, d := range []time.Duration{23 * time.Hour, 61 * time.Minute} {
		w.maintain(other)
		w.advance(d)
	}
	late := w.interrupted(other, func() { _, _ = other.agent.Reclaim(context.Background(), time.Hour, w.gone) })
	w.toggle(h)
	w.quiet(1)
	if !w.added(h) || len(h.records().Blocks) != 1 {
		t.Fatalf("the host has %+v", h.records().Blocks)
	}
	w.store.finish(late)
	if w.count() != 1 {
		t.Error("the block of which the host gives out addresses is not in the store any more")
	}
}

// TestRestoredWhileContested: a machine that has refused a copy and itself does so again in a store that
// was restored before the copy has read that.
func TestRestoredWhileContested(t *testing.T) {
	w, h := quietWorld(t)
	w.store.save()
	w.copy(h)
	c := w.hosts[len(w.hosts)-1]
	verify := func(h *fakeHost) {
		w.start(h, "verify", h.verify)
		w.drain()
	}
	w.now += renewAfter
	verify(c)
	verify(h)
	if o := h.overview(t); !errors.Is(o.Closed, ipam.ErrTwin) {
		t.Fatalf("the original is closed because of %v", o.Closed)
	}
	w.store.restore(w.store.saved[0], false)
	verify(c)
	w.quiet(2)
	for _, h := range []*fakeHost{h, c} {
		if o := h.overview(t); !errors.Is(o.Closed, ipam.ErrTwin) {
			t.Errorf("%s has %v open, closed because of %v", h, o.Open(), o.Closed)
		}
	}
}

// TestRestoredBeforeEndpoint: a host that says where it is reached, and has not read since the store was restored
// on new servers, leaves the entry alone that another host has made with the index of before.
func TestRestoredBeforeEndpoint(t *testing.T) {
	w := newWorld(1)
	w.features, w.store.faults = features{}, 0
	h, other := w.hosts[0], w.hosts[1]
	h.unattended = true
	w.quiet(6)
	before := w.store.snapshot
	if !w.added(h) {
		t.Fatal("no address")
	}
	path := w.giveAway(t, other)
	claimed := w.store.entries[path]
	claimed.Index = h.records().Blocks[0].Index
	entries := maps.Clone(before.entries)
	entries[path] = claimed
	w.store.replace(snapshot{at: w.now, entries: entries, table: claimed.Index, index: claimed.Index})
	h.move()
	w.drain()
	if content := w.store.entries[path].Content; !bytes.Equal(content, claimed.Content) {
		t.Errorf("the block of another host is said to be %s", content)
	}
}

// TestOwnedAgain: a block that was another host's, and is this host's again after the servers were restored, gives out no
// more addresses: the other one may have some. It is given back when this host has none.
func TestOwnedAgain(t *testing.T) {
	for name, has := range map[string]bool{"the snapshot has its entry": true, "the snapshot lacks it": false} {
		t.Run(name, func(t *testing.T) {
			w, h := quietWorld(t)
			before := w.store.snapshot
			path := w.giveAway(t, w.hosts[1])
			w.quiet(1)
			if !has {
				before.entries = maps.Clone(before.entries)
				delete(before.entries, path)
			}
			w.store.restore(before, false)
			w.quiet(3)
			owners := w.store.ghost.owners(w.store, w.store.entries, path)
			if o := h.overview(t); !slices.Equal(owners, []*fakeHost{h}) || len(o.Open()) > 0 {
				t.Errorf("the block is in the store as that of %v, and open are %v", owners, o.Open())
			}
			w.del(h, h.namespaces...)
			w.quiet(7)
			if left := h.records().Blocks; w.count() > 0 || len(left) > 0 {
				t.Errorf("the store still has %d blocks, and the host %+v", w.count(), left)
			}
		})
	}
}
