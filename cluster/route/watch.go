// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package route

import (
	"context"
	"net/netip"
	"slices"
)

type event struct {
	kind eventKind
	// index is that of the interface, and name its name if the event is about it.
	index int
	name  string
	// prefix is that of a route, or an address.
	prefix netip.Prefix
	// ours is whether a route is, and gone whether something was removed.
	ours, gone bool
}

type eventKind int

const (
	lostEvent eventKind = iota
	linkEvent
	addressEvent
	routeEvent
	neighbourEvent
)

type concern struct {
	pool  Pool
	local netip.Addr
	// links are the indexes of the interfaces that are used, and device that of the pool's, or 0.
	links  map[int]bool
	device int
}

// has is whether the event is about something that Apply would look at.
func (c concern) has(e event) bool {
	switch e.kind {
	case linkEvent:
		return c.links[e.index] || c.pool.Mode.HasVXLAN() && e.name == deviceName(c.pool.Name)
	case neighbourEvent:
		return e.index == c.device && c.device != 0
	case addressEvent:
		a := e.prefix.Addr()
		return a == c.local || c.links[e.index] || c.pool.has(a) && !slices.Contains(c.pool.Gateways, a)
	case routeEvent:
		return c.hasRoute(e)
	}
	return true
}

// hasRoute leaves out our own additions, and the routes of others to single attachments.
func (c concern) hasRoute(e event) bool {
	for _, s := range c.pool.Subnets {
		if s.Overlaps(e.prefix) && s.Bits() <= e.prefix.Bits() {
			return e.ours && e.gone || !e.ours && e.prefix.Bits() <= c.pool.blockBits(e.prefix)
		}
	}
	return false
}

// follow makes the objects of a reconciliation those that events are compared with.
func (t *Table) follow(r *reconciliation) {
	c := concern{pool: r.pool, local: r.local.Address, links: map[int]bool{}}
	used := map[string]bool{}
	if l := r.have.linkOf(r.local.Address); l != nil {
		used[l.name] = true
	}
	for _, name := range r.used {
		used[name] = true
	}
	for i := range r.have.links {
		l := &r.have.links[i]
		c.links[l.index] = used[l.name] || l.name == deviceName(r.pool.Name)
		if l.isOurs(r.pool.Name) {
			c.device = l.index
		}
	}
	t.watched.Lock()
	defer t.watched.Unlock()
	t.concerns[r.pool.Name] = c
}

func (t *Table) unfollow(pool string) {
	t.watched.Lock()
	defer t.watched.Unlock()
	delete(t.concerns, pool)
}

func (t *Table) concerned(e event) []string {
	t.watched.Lock()
	defer t.watched.Unlock()
	var pools []string
	for name, c := range t.concerns {
		if c.has(e) {
			pools = append(pools, name)
		}
	}
	return pools
}

// Changes returns a channel that gets the names of pools when something has changed that Apply should
// look at: routes, neighbours and devices of the pool, addresses and routes that are in their way, and
// the interfaces that they use. Several changes may be one value, with all of their pools; lost ones
// concern all pools. The channel is closed when the context ends, or the kernel cannot be asked any more.
func (t *Table) Changes(ctx context.Context) (<-chan []string, error) {
	changes := make(chan []string, 1)
	seen := func(e event) {
		pools := t.concerned(e)
		if len(pools) == 0 {
			return
		}
		select {
		case waiting := <-changes:
			pools = append(pools, waiting...)
		default:
		}
		slices.Sort(pools)
		changes <- slices.Compact(pools) // there is room: nothing else sends
	}
	if err := t.kernel.watch(ctx, seen, func() { close(changes) }); err != nil {
		return nil, err
	}
	return changes, nil
}
