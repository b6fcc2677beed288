// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package route

import (
	"net/netip"
	"slices"
)

const (
	// subnetMetric is that of the routes for what no host has: every other route is preferred.
	subnetMetric = 4278198272
	// ipv6Metric is what the kernel makes of the metric 0.
	ipv6Metric = 1024
)

// goal is what the kernel's tables should have for a pool.
type goal struct {
	forwards   []forward
	neighbours []neighbour
	routes     []entry
}

// unclaimed is the route for packets to blocks that no host has: they must not leave by the default
// route.
func unclaimed(subnet netip.Prefix) entry {
	return entry{prefix: subnet, metric: subnetMetric, unreachable: true, ours: true}
}

func entryTo(block netip.Prefix, n next) entry {
	e := entry{prefix: block, via: n.via, device: n.device, onlink: n.onlink, source: n.source, ours: true}
	if block.Addr().Is6() {
		e.metric = ipv6Metric
	}
	return e
}

// goalOf returns what the routes of a report need, and those of subnets that have nothing but blocks.
func goalOf(closed []netip.Prefix, s *snapshot, picks []pick) goal {
	var g goal
	for _, subnet := range closed {
		e := unclaimed(subnet)
		taken := func(other entry) bool { return !other.ours && other.place() == e.place() }
		if !slices.ContainsFunc(s.routes, taken) {
			g.routes = append(g.routes, e)
		}
	}
	seen := map[object]bool{}
	for _, k := range picks {
		if k.State != Installed {
			continue
		}
		g.routes = append(g.routes, k.entry)
		if k.mac == "" {
			continue
		}
		if !seen[k.forward] {
			g.forwards = append(g.forwards, k.forward)
		}
		if !seen[k.neighbour] {
			g.neighbours = append(g.neighbours, k.neighbour)
		}
		seen[k.forward], seen[k.neighbour] = true, true
	}
	return g
}

// plan returns the changes that lead from what the kernel has to the goal, those that others
// depend on first, and removals last. Stale is whether a route of ours belongs to the pool.
func plan(s *snapshot, g goal, stale func(entry) bool) []change {
	forwards := reconcile(s.forwards, g.forwards, func(f forward) any { return f.mac })
	neighbours := reconcile(s.neighbours, g.neighbours, func(n neighbour) any { return n.address })
	ours := slices.DeleteFunc(slices.Clone(s.routes), func(e entry) bool { return !e.ours || !stale(e) })
	routes := reconcile(ours, g.routes, func(e entry) any { return e.place() })
	changes := slices.Concat(forwards.set, neighbours.set, routes.set)
	return slices.Concat(changes, routes.remove, neighbours.remove, forwards.remove)
}

type steps struct{ set, remove []change }

// reconcile compares what there is with what is wanted. The kernel has one wanted object for a
// key, and may have several of others.
func reconcile[T interface {
	comparable
	object
}](have, want []T, key func(T) any) steps {
	var s steps
	present, byKey := map[T]bool{}, map[any][]T{}
	for _, h := range have {
		present[h] = true
		byKey[key(h)] = append(byKey[key(h)], h)
	}
	kept := map[T]bool{}
	for _, w := range want {
		others := byKey[key(w)]
		switch {
		case present[w]:
			kept[w] = true
		case len(others) > 0:
			s.set = append(s.set, change{replace, w})
			kept[others[0]] = true
		default:
			s.set = append(s.set, change{add, w})
		}
	}
	for _, h := range have {
		if !kept[h] {
			s.remove = append(s.remove, change{remove, h})
		}
	}
	return s
}
