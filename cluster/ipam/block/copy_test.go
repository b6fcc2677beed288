// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package block

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/allocnet/allocnet/cluster/ipam"
)

// quietWorld is one in which nothing happens by chance, with a host that has an address.
func quietWorld(t *testing.T) (*world, *fakeHost) {
	t.Helper()
	w := newWorld(1)
	w.features, w.store.faults = features{}, 0
	w.quiet(6)
	h := w.hosts[0]
	w.start(h, "ADD", h.add)
	w.quiet(1)
	t.Cleanup(func() {
		for _, h := range w.hosts {
			h.end()
		}
		for _, thread := range w.threads {
			thread.stop()
		}
		if w.failure != "" {
			t.Error(w.failure)
		}
	})
	return w, h
}

func (h *fakeHost) overview(t *testing.T) *Overview {
	t.Helper()
	o, err := h.agent.Overview()
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// TestCopyOfADisk: the copy gives out no address of what the original has, and is refused; the
// original goes on, and knows of it.
func TestCopyOfADisk(t *testing.T) {
	w, h := quietWorld(t)
	w.clone(h)
	c := w.hosts[len(w.hosts)-1]
	c.self.MachineID = h.self.MachineID
	if o := c.overview(t); len(o.Open()) > 0 || !errors.Is(o.Closed, ipam.ErrFenced) {
		t.Errorf("the copy has %v open before it has asked, closed because of %v", o.Open(), o.Closed)
	}
	w.quiet(3)
	if o := c.overview(t); !errors.Is(o.Closed, ipam.ErrTwin) {
		t.Errorf("the copy is closed because of %v", o.Closed)
	}
	if o := h.overview(t); len(o.Open()) == 0 || !o.Copied {
		t.Errorf("the original has %v open, closed because of %v, and knows of the copy: %v", o.Open(), o.Closed, o.Copied)
	}
}

// TestReboot: what a host had is open again when no other machine has opposed it for a while. Without the store nothing is.
func TestReboot(t *testing.T) {
	w, h := quietWorld(t)
	w.toggle(h)
	h.reboot()
	w.quiet(6)
	if o := h.overview(t); len(o.Open()) > 0 || w.added(h) {
		t.Errorf("without the store %v is open", o.Open())
	}
	w.toggle(h)
	w.quiet(1)
	if o := h.overview(t); len(o.Open()) > 0 || o.Waiting == "" || o.Closed != nil {
		t.Errorf("after the boot %v is open, waiting: %q, closed because of %v", o.Open(), o.Waiting, o.Closed)
	}
	if !w.added(h) {
		t.Error("a host that waits cannot claim a block")
	}
	w.quiet(6)
	if o := h.overview(t); len(o.Open()) != 2 || o.Waiting != "" {
		t.Errorf("after a while %v is open, waiting: %q", o.Open(), o.Waiting)
	}
}

// TestCopyWithMemory: both are refused once the nonce is renewed.
func TestCopyWithMemory(t *testing.T) {
	w, h := quietWorld(t)
	w.copy(h)
	w.quiet(7)
	for _, h := range []*fakeHost{h, w.hosts[len(w.hosts)-1]} {
		if o := h.overview(t); !errors.Is(o.Closed, ipam.ErrTwin) {
			t.Errorf("%s is closed because of %v", h, o.Closed)
		}
	}
}

// TestGivenBackByACopy: what one of them gives back stays theirs if the other one verifies: both are refused before. The
// same goes for what the other one has claimed.
func TestGivenBackByACopy(t *testing.T) {
	for name, begin := range map[string]func(w *world, h, c *fakeHost){
		"given back": func(w *world, h, c *fakeHost) {
			w.start(c, "release", func() { _, _ = c.agent.Release(t.Context(), 0, 0) })
			w.drain()
			if !w.added(h) {
				w.fail("the other one gives out nothing")
			}
		},
		"claimed": func(w *world, h, c *fakeHost) {
			for w.count() == 1 && w.added(h) {
			}
			w.maintain(c)
			w.drain()
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, h := quietWorld(t)
			w.del(h, h.namespaces...)
			w.drain()
			w.now += h.config.Cooldown
			w.copy(h)
			c := w.hosts[len(w.hosts)-1]
			begin(w, h, c)
			blocks := w.count()
			w.quiet(2)
			for _, h := range []*fakeHost{h, c} {
				if o := h.overview(t); !errors.Is(o.Closed, ipam.ErrTwin) {
					t.Errorf("after two rounds %s is closed because of %v", h, o.Closed)
				}
			}
			for range 6 {
				w.start(c, "release", func() { _, _ = c.agent.Release(t.Context(), 0, 0) })
				w.maintain(c)
				w.quiet(1)
			}
			if blocks == 0 || w.count() != blocks {
				t.Errorf("of %d blocks %d are left", blocks, w.count())
			}
		})
	}
}

// TestGivenBackBeforeACopy: nor is what a host was giving back when it was copied given out by the copy.
func TestGivenBackBeforeACopy(t *testing.T) {
	w, h := quietWorld(t)
	w.del(h, h.namespaces...)
	w.drain()
	w.now += h.config.Cooldown
	w.start(h, "release", func() { _, _ = h.agent.Release(t.Context(), 0, 0) })
	w.drain()
	w.copy(h)
	if o := w.hosts[len(w.hosts)-1].overview(t); len(o.Open()) != 0 || len(o.Blocks) != 1 {
		t.Errorf("of %v the copy gives out addresses of %v", o.Blocks, o.Open())
	}
	if w.quiet(6); w.count() != 0 {
		t.Errorf("%d blocks are left", w.count())
	}
}

// TestOneNodeID: of two machines with one node ID, neither adopts what the other has, as long as that one verifies.
func TestOneNodeID(t *testing.T) {
	w, h := quietWorld(t)
	other := w.hosts[1]
	other.self.NodeID = h.self.NodeID
	adopt := func() bool {
		for range 3 {
			w.maintain(other)
			w.quiet(5)
		}
		return len(other.records().Blocks) > 0
	}
	if adopt() {
		t.Error("the block of a host that lives was adopted")
	}
	w.del(h, h.namespaces...)
	w.drain()
	w.toggle(h)
	if !adopt() {
		t.Error("the block of a host that does not answer was not adopted")
	}
}

// TestRestoredState: nothing of it is given out before it was verified, and what this machine
// wrote in this boot is its own.
func TestRestoredState(t *testing.T) {
	w, h := quietWorld(t)
	h.save()
	w.quiet(6) // another nonce
	h.recover()
	if o := h.overview(t); len(o.Open()) > 0 || !errors.Is(o.Closed, ipam.ErrFenced) {
		t.Errorf("after the restore %v is open, closed because of %v", o.Open(), o.Closed)
	}
	w.quiet(1)
	if o := h.overview(t); len(o.Open()) != 1 || o.Closed != nil {
		t.Errorf("verified, %v is open, closed because of %v", o.Open(), o.Closed)
	}
}

// TestRestoredAfterKill: a host that is killed at any instant of noting that its block is another's, and
// whose state directory is restored then, gives out nothing of the block before it has verified.
func TestRestoredAfterKill(t *testing.T) {
	for instant, noted := 1, false; ; instant++ {
		w, h := quietWorld(t)
		h.save()
		path := w.giveAway(t, w.hosts[1])
		w.start(h, "verify", h.verify)
		p := w.processes[0]
		for range instant {
			if !p.ended {
				w.run(p)
			}
		}
		if p.ended {
			if !noted {
				t.Error("the host has never noted that the block is another's")
			}
			return
		}
		w.kill(p)
		known := h.records().Blocks[0].State == Lost
		noted = noted || known
		h.files = maps.Clone(h.backup)
		if o := h.overview(t); known && len(o.Open()) > 0 {
			t.Errorf("killed at instant %d, the host gives out addresses of %v, and has known that %s is another's", instant, o.Open(), path)
		}
		if w.quiet(1); len(h.overview(t).Open()) > 0 {
			t.Errorf("killed at instant %d, the host has verified, and %s is open", instant, path)
		}
	}
}

// giveAway makes the only block that of another host, as the token allows everyone.
func (w *world) giveAway(t *testing.T, to *fakeHost) (path string) {
	t.Helper()
	entries := maps.Clone(w.store.entries)
	w.store.index++
	for path = range entries {
		if isBlock(path) {
			break
		}
	}
	block, err := ipam.DecodeBlock(entries[path].Content, w.config)
	if err != nil {
		t.Fatal(err)
	}
	block.Host = to.self
	entries[path] = ipam.Entry{Path: path, Content: ipam.Encode(block), Index: w.store.index}
	w.store.replace(snapshot{at: w.now, entries: entries, table: w.store.index, index: w.store.index})
	return path
}

// TestPurged: the blocks of a host that Nomad does not know are not reclaimed before the host gives
// out no address any more.
func TestPurged(t *testing.T) {
	w, h := quietWorld(t)
	w.toggle(h)
	w.purge(h)
	if w.count() == 0 {
		t.Error("the block of a host that may give out addresses of it was reclaimed")
	}
	for range 3 {
		w.maintain(w.hosts[1])
		w.day()
	}
	if w.count() != 0 {
		t.Errorf("%d blocks are left of a host that is gone", w.count())
	}
}

// TestPurgedWithoutAgent: nor those of a host without an agent that attaches something in each hour,
// also in the boot in which its instance was made. It loses them when it has attached nothing for 22 hours.
func TestPurgedWithoutAgent(t *testing.T) {
	w := newWorld(1)
	w.features, w.store.faults = features{}, 0
	h, other := w.hosts[0], w.hosts[1]
	h.unattended, h.born = true, birth{h.self.Instance, h.self.MachineID, h.self.Boot}
	w.purged[h.self.NodeID] = true
	for hours := range 30 {
		w.start(h, "ADD", h.add)
		w.drain()
		if len(h.namespaces) > 1 {
			w.del(h, h.namespaces[0])
		}
		w.maintain(other)
		w.advance(time.Hour + time.Minute)
		if w.count() == 0 {
			t.Fatalf("the block of a host that attached something an hour ago was reclaimed after %d hours", hours)
		}
	}
	for range 23 {
		w.maintain(other)
		w.advance(time.Hour)
	}
	if w.maintain(other); w.count() != 0 {
		t.Error("a host that has attached nothing for 22 hours has its block")
	}
}

// TestCopyWithoutObjection: a copy gives out what its original has, which cannot say so. Both are
// refused as soon as it can.
func TestCopyWithoutObjection(t *testing.T) {
	w, h := quietWorld(t)
	w.toggle(h)
	w.clone(h)
	c := w.hosts[len(w.hosts)-1]
	c.self.MachineID = h.self.MachineID
	w.quiet(4)
	if o := c.overview(t); len(o.Open()) > 0 {
		t.Errorf("the copy has %v open before 40 s have passed", o.Open())
	}
	w.quiet(2)
	if o := c.overview(t); len(o.Open()) == 0 {
		t.Errorf("after 40 s the copy is closed because of %v", o.Closed)
	}
	w.toggle(h)
	w.quiet(2)
	for _, h := range []*fakeHost{h, c} {
		if o := h.overview(t); !errors.Is(o.Closed, ipam.ErrTwin) {
			t.Errorf("%s is closed because of %v", h, o.Closed)
		}
	}
}

// TestRestoredWhileOff: a host whose disk is older than what it wrote is taken for a copy, until an
// operator says that there is none.
func TestRestoredWhileOff(t *testing.T) {
	w, h := quietWorld(t)
	h.save()
	w.quiet(6) // another nonce
	h.files = maps.Clone(h.backup)
	h.reboot()
	w.quiet(6)
	if o := h.overview(t); !errors.Is(o.Closed, ipam.ErrTwin) || !strings.Contains(o.Closed.Error(), ipam.NodePath(h.self.Instance)) {
		t.Errorf("the host is closed because of %v", o.Closed)
	}
	w.readmit(h)
	w.quiet(6)
	if o := h.overview(t); len(o.Open()) != 1 || o.Closed != nil {
		t.Errorf("readmitted, %v is open, closed because of %v", o.Open(), o.Closed)
	}
}

// TestPaused: a machine whose uptime stood still does not know that its blocks are gone before it
// verifies.
func TestPaused(t *testing.T) {
	w, h := quietWorld(t)
	h.dead, h.silent = true, w.now
	began := w.now
	for range 3 {
		w.maintain(w.hosts[1])
		w.day()
	}
	if w.count() != 0 {
		t.Fatalf("%d blocks are left of a host that is gone", w.count())
	}
	h.booted += w.now - began
	h.dead, h.silent = false, -1
	if o := h.overview(t); len(o.Open()) != 1 {
		t.Errorf("the machine has noticed that it was paused: %v is open", o.Open())
	}
	w.quiet(1)
	if o := h.overview(t); len(o.Open()) != w.count() {
		t.Errorf("verified, %v is open, and %d blocks are in the store", o.Open(), w.count())
	}
}

// TestClaimedByACopyAfterRestore: a block that a copy has claimed when the store had lost it is not opened again by the
// machine that had it before: it does not know which addresses of it the copy has given out.
func TestClaimedByACopyAfterRestore(t *testing.T) {
	w, h := quietWorld(t)
	w.clone(h)
	c := w.hosts[len(w.hosts)-1]
	c.self.MachineID = h.self.MachineID
	before := h.records().Blocks
	w.store.save()
	for len(h.records().Blocks) == len(before) && w.added(h) {
	}
	i := slices.IndexFunc(h.records().Blocks, func(r Record) bool { return r.Block != before[0].Block })
	block := h.records().Blocks[i].Block
	path := ipam.BlockPath(w.config.Pool, block)
	w.store.restore(w.store.saved[0], false)
	for !c.hasRecord(path) && w.added(c) {
	}
	if !c.hasRecord(path) {
		t.Fatal("the copy has not claimed the block")
	}
	w.quiet(2)
	if o := h.overview(t); o.Closed != nil || !o.Copied || slices.Contains(o.Open(), block) {
		t.Errorf("%v is open, closed because of %v, and it knows of the copy: %v", o.Open(), o.Closed, o.Copied)
	}
	if w.quiet(6); w.store.entries[path].Index == 0 {
		t.Error("the block is free, and the copy may have addresses of it")
	}
}
