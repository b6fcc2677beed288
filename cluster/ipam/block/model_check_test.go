// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package block

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/allocnet/allocnet/cluster/ipam"
)

// attention is how often agents verify at least: what the documentation assumes.
const attention = 10 * time.Second

// staleness is how old a read may be around an election.
const staleness = 500 * time.Millisecond

// ghost is what really happened, which no process knows.
type ghost struct {
	// instances are the hosts that have, or had, an instance.
	instances map[string][]*fakeHost
	// owned is when an entry last was a host's, by path.
	owned map[string]map[*fakeHost]time.Duration
	// changed is since when the entry has been there, or missing, by path; present is when
	// the one that is missing appeared.
	changed, present map[string]time.Duration
	// last are the owners of entries that vanished.
	last map[string][]*fakeHost
	// excused are hosts that lost an entry in a way that the design does not prevent.
	excused map[string]map[*fakeHost]bool
	// restoredAt is when the store last was.
	restoredAt time.Duration
}

func newGhost() ghost {
	return ghost{map[string][]*fakeHost{}, map[string]map[*fakeHost]time.Duration{}, map[string]time.Duration{}, map[string]time.Duration{}, map[string][]*fakeHost{}, map[string]map[*fakeHost]bool{}, 0}
}

// owners are the hosts that have the instance of an entry of a block.
func (g *ghost) owners(s *fakeStore, entries map[string]ipam.Entry, path string) []*fakeHost {
	entry, ok := entries[path]
	if !ok {
		return nil
	}
	content, err := ipam.DecodeBlock(entry.Content, s.config)
	if err != nil {
		panic(err)
	}
	return g.instances[content.Host.Instance]
}

func isBlock(path string) bool { return strings.Contains(path, "/b/") }

func (g *ghost) set(path string, h *fakeHost, excused bool) {
	if g.excused[path] == nil {
		g.excused[path] = map[*fakeHost]bool{}
	}
	g.excused[path][h] = excused
}

// leave notes until when an entry was a host's.
func (g *ghost) leave(s *fakeStore, entries map[string]ipam.Entry, path string) {
	if g.owned[path] == nil {
		g.owned[path] = map[*fakeHost]time.Duration{}
	}
	for _, h := range g.owners(s, entries, path) {
		g.owned[path][h] = s.now
	}
}

// before judges a deletion: no address of the block is in use.
func (g *ghost) before(s *fakeStore, r *request) {
	if !isBlock(r.path) {
		return
	}
	g.leave(s, s.entries, r.path)
	r.previous, r.old = g.owners(s, s.entries, r.path), s.entries[r.path]
	if r.kind != "delete" {
		return
	}
	for _, owner := range r.previous {
		switch {
		case owner.twin != nil && owner.twin == r.host && !owner.couldKeep(r): // it may give out addresses of it until it can
			g.set(r.path, owner, true)
			s.counts["excused: deleted by a twin to which the other could not object"]++
		case !owner.uses(r.path):
		case owner.twin != nil && owner.twin == r.host && g.restoredAt > owner.created && !owner.claimed(r.old): // a restore has brought it back
			g.set(r.path, owner, true)
			s.counts["excused: deleted by the twin whose claim it is"]++
		case r.sent < g.restoredAt && !owner.verifiedIn(g.restoredAt, s.now): // the index is that of an entry of before, which is there again
			g.set(r.path, owner, true)
			s.counts["excused: deleted by a request of before the restore"]++
		case s.now-owner.answered > defaultFence:
			g.set(r.path, owner, true)
			s.counts["excused: the owner was silent for the fence"]++
		default:
			s.fail("%s deleted %s, of which %s has addresses in use", r.host, r.path, owner)
		}
	}
}

// after judges a claim: no address of the block is in use by another host.
func (g *ghost) after(s *fakeStore, r *request) {
	if strings.Contains(r.path, "/nodes/") && r.kind != "delete" {
		g.registered(r)
	}
	if !isBlock(r.path) {
		return
	}
	if r.kind == "delete" {
		g.present[r.path], g.changed[r.path] = g.changed[r.path], s.now
		g.last[r.path] = r.previous
		return
	}
	if r.kind == "update" && endpointOf(s.config, r.old) != endpointOf(s.config, s.entries[r.path]) {
		g.moved(s, r)
	}
	owners := g.owners(s, s.entries, r.path)
	for _, x := range s.hosts {
		switch {
		case x == r.host && len(owners) == 0: // it is recovered, so that no other claims it
		case x == r.host && x.usesOld(r.path), !slices.Contains(owners, x) && x.uses(r.path):
			g.judge(s, r, x)
		case slices.Contains(owners, x):
			g.set(r.path, x, false)
		}
	}
	g.changed[r.path] = s.now
	delete(g.last, r.path)
	s.counts["claimed"]++
}

// moved judges another endpoint: a clone does not draw the traffic of an original that could have
// said that it is there.
func (g *ghost) moved(s *fakeStore, r *request) {
	s.counts["moved"]++
	x := r.host.twin
	if !r.host.clone || x == nil || !slices.Contains(r.previous, x) || !x.hasRecord(r.path) { // the clone has claimed it itself
		return
	}
	inPlace := x.confirmed >= 0 && x.confirmed < r.host.registered
	if r.host.memory {
		inPlace = r.host.couldObject()
	}
	if inPlace && x.attentive(s.now-settle, s.now) {
		s.fail("the clone %s changed the endpoint of %s, which %s has", r.host, r.path, x)
	}
	s.counts["excused: the original said nothing"]++
}

// registered notes that a machine has written its nonce.
func (g *ghost) registered(r *request) {
	content, err := ipam.DecodeNode(r.content)
	if err != nil || content.Host.Boot != r.host.self.Boot {
		return
	}
	if r.host.registered < 0 {
		r.host.registered = r.host.now
	}
	isNewer := func(c *fakeHost) bool { return r.host.store.entries[r.path].Index > c.lastIndex() }
	if c := r.host.twin; c != nil && c.clone && !c.stood() && !strings.Contains(string(c.files[nodeFile]), content.Nonce) && isNewer(c) {
		c.superseded = r.host.now
	}
}

// original is the first of two machines.
func (h *fakeHost) original() *fakeHost {
	if h.clone {
		return h.twin
	}
	return h
}

// isCopyBefore tells whether a machine or its twin was made of a disk before a restore of the store.
func (h *fakeHost) isCopyBefore(restored time.Duration) bool {
	c := h
	if !c.clone {
		c = h.twin
	}
	return !c.memory && c.created < restored
}

// lastIndex is that of the entry as the host knows it. One with a lower index, of a store that was restored on new
// servers, the host takes for what it has forgotten, until its twin objects again.
func (h *fakeHost) lastIndex() (index uint64) {
	for _, data := range [][]byte{h.files[nodeFile], h.present[nodeFile]} {
		n := &node{}
		if data != nil && json.Unmarshal(data, n) == nil {
			index = max(index, n.Index)
		}
	}
	return index
}

// stood tells whether a machine has had its place for so long that it keeps it.
func (h *fakeHost) stood() bool {
	n := &node{}
	if data := h.files[nodeFile]; data == nil || json.Unmarshal(data, n) != nil || n.Boot != h.self.Boot || n.Registered.isZero() {
		return false
	}
	return int64(fakeClock{h}.uptime())-n.Registered.Uptime >= int64(settle)
}

// judge decides whether a host may have claimed a block of which x has addresses in use. What
// the design does not prevent: x lost the entry with a snapshot, and did not verify often
// enough, or the other one had not verified while the entry was there.
func (g *ghost) judge(s *fakeStore, r *request, x *fakeHost) {
	y, vanished := r.host, g.changed[r.path]
	if y == nil {
		return
	}
	if r.kind == "update" && slices.Contains(r.previous, y) {
		return // a new node ID
	}
	if r.kind == "update" { // adopted: the instance did not say that it lives
		if !x.attentive(s.now-settle, s.now) {
			s.counts["excused: adopted from a silent host with one node ID"]++
			g.set(r.path, x, true)
			return
		}
		s.fail("%s took %s, of which %s has addresses in use", y, r.path, x)
		return
	}
	switch {
	case !g.excused[r.path][x]:
		s.fail("%s claimed %s, of which %s has addresses in use", y, r.path, x)
	case x == y:
		s.counts["excused: the host itself lost its state and the store its entries"]++
	case r.sent < vanished:
		s.counts["excused: sent before the store lost the entry"]++
	case slices.Contains(g.last[r.path], y):
		s.counts["excused: the last owner created it again"]++
	case !x.attentive(vanished, s.now):
		s.counts["excused: the owner did not verify"]++
	case y.twin != nil && !y.couldObject():
		s.counts["excused: claimed again by a twin to which the other could not object"]++
	case x.hasLost(r.path) && y.hasLost(r.path): // neither gives out more addresses of it
		s.counts["excused: both had lost the block before"]++
	case !y.verifiedIn(g.present[r.path]+staleness, vanished):
		s.counts["excused: the block was unknown to the claimer"]++
	default:
		s.fail("%s claimed %s, of which %s has addresses in use, %s after the store lost the entry", y, r.path, x, s.now-vanished)
	}
}

// restored excuses hosts whose entries are gone with a snapshot.
func (g *ghost) restored(s *fakeStore, old map[string]ipam.Entry) {
	paths := map[string]bool{}
	for _, entries := range []map[string]ipam.Entry{old, s.entries} {
		for path := range entries {
			paths[path] = isBlock(path)
		}
	}
	for path, block := range paths {
		if !block || string(old[path].Content) == string(s.entries[path].Content) {
			continue
		}
		g.leave(s, old, path)
		was, is := g.owners(s, old, path), g.owners(s, s.entries, path)
		for _, h := range was {
			if !slices.Contains(is, h) {
				g.set(path, h, true)
			}
		}
		g.present[path], g.changed[path] = g.changed[path], s.now
		if _, ok := old[path]; ok {
			g.last[path] = was
		}
	}
	for _, h := range s.hosts {
		h.superseded = -1 // the store does not have what the original has said any more
		node, err := ipam.DecodeNode(s.entries[ipam.NodePath(h.self.Instance)].Content)
		if h.clone && !h.stood() && (err != nil || node.Host.Boot != h.self.Boot) {
			h.registered = -1 // nor the copy's nonce
		}
	}
	g.restoredAt = s.now
	s.counts["restored"]++
}

// cloned lets a clone be what its original is.
func (g *ghost) cloned(original, clone *fakeHost) {
	instance := original.self.Instance
	g.instances[instance] = append(g.instances[instance], clone)
	for path := range g.owned {
		if at, ok := g.owned[path][original]; ok {
			g.owned[path][clone] = at
		}
	}
	for path := range g.excused {
		g.set(path, clone, g.excused[path][original])
	}
}

// vanished returns how many blocks others may not claim yet.
func (g *ghost) vanished(since time.Duration) int {
	n := 0
	for path, at := range g.changed {
		if at > since && isBlock(path) {
			n++
		}
	}
	return n
}

// uses tells whether a namespace of the host has an address of a block.
func (h *fakeHost) uses(path string) bool {
	return slices.ContainsFunc(h.namespaces, func(n *namespace) bool { return n.alive && h.pathOf(n) == path })
}

// usesOld tells whether one of before the host lost its state has.
func (h *fakeHost) usesOld(path string) bool {
	return slices.ContainsFunc(h.namespaces, func(n *namespace) bool { return n.alive && n.since < h.created && h.pathOf(n) == path })
}

func (h *fakeHost) pathOf(n *namespace) string {
	b, ok := h.config.BlockOf(n.address)
	if !ok {
		panic(n.address)
	}
	return ipam.BlockPath(h.config.Pool, b)
}

func (h *fakeHost) hasRecord(path string) bool {
	return slices.ContainsFunc(h.records().Blocks, func(r Record) bool { return ipam.BlockPath(h.config.Pool, r.Block) == path })
}

// hasLost tells whether a block on record is another's, or was.
func (h *fakeHost) hasLost(path string) bool { return h.hasRecord(path) && !h.keeps(path) }

// keeps tells whether a block on record is not another's.
func (h *fakeHost) keeps(path string) bool {
	return slices.ContainsFunc(h.records().Blocks, func(r Record) bool { return r.State != Lost && ipam.BlockPath(h.config.Pool, r.Block) == path })
}

// claimed tells whether an entry is of a boot of the host.
func (h *fakeHost) claimed(e ipam.Entry) bool {
	content, err := ipam.DecodeBlock(e.Content, h.config)
	return err == nil && (content.Host.Boot == h.self.Boot || slices.Contains(h.boots, content.Host.Boot))
}

// attentive tells whether the host verified often enough between two points in time.
func (h *fakeHost) attentive(from, to time.Duration) bool {
	if h.created > from {
		return false
	}
	last := from
	for _, v := range h.verifications {
		if v.start < from || v.start > to {
			continue
		}
		if v.end-last > attention {
			return false
		}
		last = v.start
	}
	return to-last <= attention
}

// verifiedIn tells whether the host verified in between.
func (h *fakeHost) verifiedIn(from, to time.Duration) bool {
	return slices.ContainsFunc(h.verifications, func(v verification) bool { return v.start >= from && v.end <= to })
}

// noticed is within what time two machines with one memory know of each other: the nonce is
// renewed, and each reads it.
const noticed = renewAfter + 4*attention

// couldObject tells whether the original of a twin could say, or its copy see, that there are
// two of them.
func (h *fakeHost) couldObject() bool {
	o, c := h, h.twin
	if o.clone {
		o, c = c, o
	}
	if c.memory {
		from := h.now - noticed
		return from >= c.forked && o.attentive(from, h.now) && c.attentive(from, h.now)
	}
	return c.registered < 0 || o.attentive(c.registered, min(h.now, c.registered+settle))
}

// couldKeep tells whether the twin of a machine that deletes an entry could say that there are two of them. With one
// memory, what is given back was offered for a while.
func (h *fakeHost) couldKeep(r *request) bool {
	if h.memory || h.twin.memory {
		return h.attentive(r.sent-settle, r.sent)
	}
	return h.couldObject()
}

// informed tells whether the copy of a disk could know of its original: that one had its place
// before, and has read the nonce of the copy, which has verified since.
func (h *fakeHost) informed() bool {
	t := h.twin
	switch {
	case t == nil, !h.clone, h.memory:
		return false
	case h.marked && h.self.MachineID != t.self.MachineID, h.superseded >= 0 && h.verifiedIn(h.superseded+staleness, h.now):
		return true
	}
	for _, v := range t.verifications { // the original objects if it was there before, in this boot
		inPlace := t.confirmed >= 0 && t.confirmed+settle < h.registered
		if inPlace && v.start >= max(h.registered, h.store.ghost.restoredAt)+staleness && h.verifiedIn(v.end+staleness, h.now) {
			return true
		}
	}
	return false
}

// checkNew judges an address that a namespace has got.
func (h *fakeHost) checkNew(n *namespace) {
	path := h.pathOf(n)
	for _, other := range h.hosts {
		for _, m := range other.namespaces {
			if m != n && m.alive && m.address == n.address {
				h.checkPair(path, n, m)
			}
		}
	}
	if h.twin != nil && n.informed {
		h.fail("%s gave out %s although it could know that it has a twin", h, n.address)
	}
	if n.since-h.answered > defaultFence {
		h.fail("%s gave out %s, but the store has not answered for %s", h, n.address, n.since-h.answered)
	}
	if slices.ContainsFunc(h.namespaces, func(m *namespace) bool { return m.lost && m.since >= h.created && h.pathOf(m) == path }) {
		h.fail("%s gave out %s of a block that was another's meanwhile, which may have given it out, too", h, n.address)
	}
	g := &h.store.ghost
	if slices.Contains(g.owners(h.store, h.store.entries, path), h) {
		return
	}
	verified := h.created
	if h.clone {
		verified = 0 // what it has is as old as the last verification of its original
	}
	for _, v := range h.verifications {
		if v.end <= n.since {
			verified = v.start
		}
	}
	if last, ok := g.owned[path][h]; !ok || last < verified-staleness {
		h.fail("%s gave out %s, but the block was not its own when it last verified", h, n.address)
	}
}

// checkPair judges two namespaces with one address.
func (h *fakeHost) checkPair(path string, n, m *namespace) {
	excused := h.store.ghost.excused[path]
	switch {
	case (n.host != m.host || m.since < n.host.created) && (excused[n.host] || excused[m.host]):
		h.counts["excused: twice after a snapshot or a twin"]++
	case n.host.twin == m.host && !h.couldObject():
		h.counts["excused: twice by a twin to which the other could not object"]++
	case n.host.twin == m.host && n.host.isCopyBefore(h.store.ghost.restoredAt) && !n.host.original().verifiedIn(h.store.ghost.restoredAt, h.now):
		h.counts["excused: twice by a twin, before the other saw that the store had lost its entries"]++
	default:
		h.fail("%s of %s also has %s", n.address, m.host, n.host)
	}
}
