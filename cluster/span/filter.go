// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package span

import (
	"cmp"
	"context"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/internal/wake"
)

// filterPause is the time between two looks for what drops packets of other hosts. To list the
// rules takes processes.
const filterPause = time.Minute

// filterAtLeast is the time between two in quick succession.
const filterAtLeast = time.Second

// Filtering is what the host's filters should do with packets of pools.
type Filtering struct {
	// Accept is whether the packets are let through, if that can be done.
	Accept bool
	// Pools are those with routes to other hosts, and Spared the names of others that may need what they have: they
	// have no network any more, or it is not known yet whether they get routes, and from where packets come.
	Pools  []*ipam.Config
	Spared []string
	// Known are the subnets of all pools with a network that spans hosts, or routes, by name.
	Known map[string][]netip.Prefix
	// Node is the address that other hosts send to. Not valid: no pool is known to have routes.
	Node netip.Addr
}

// Obstacles returns what of the host drops packets between a pool and other hosts.
type Obstacles func(*ipam.Config) []string

// watchFilters looks for what drops packets, and soon after pools or their interfaces have changed.
func (s *Span) watchFilters(ctx context.Context) {
	var last []string
	for {
		look := true
		select {
		case <-ctx.Done():
			return
		case <-s.refilter:
		case <-s.moved:
			look = !slices.Equal(last, s.interfaces())
		case <-s.disturbed:
			f, _ := s.filtering()
			look = f.Accept
		case <-time.After(filterPause):
		}
		if look {
			s.noteFiltered(ctx)
			last = s.interfaces()
			wake.After(ctx, filterAtLeast)
		}
	}
}

// watchRules has the filters looked at again when others have changed them, if there is something to keep
// in them. Without, that waits for the next look.
func (s *Span) watchRules(ctx context.Context) {
	for ctx.Err() == nil {
		if f, _ := s.filtering(); f.Accept && len(f.Pools) > 0 {
			if err := s.config.WatchFilter(ctx, func() { s.disturbed.Send() }); err != nil {
				s.config.Logger.Warn("changes of the filters are noticed within a minute only", "error", err)
			}
		}
		wake.After(ctx, watchPause)
	}
}

// interfaces are those of the pools, as far as rules name them.
func (s *Span) interfaces() []string {
	if f, ok := s.filtering(); ok && f.Accept && s.config.Interfaces != nil {
		return s.config.Interfaces(f)
	}
	return nil
}

// filtering returns what the filters should do. It is not known before the first look for pools.
func (s *Span) filtering() (f Filtering, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f = Filtering{Accept: s.settings.Accept, Spared: slices.Sorted(maps.Keys(s.spared)), Known: maps.Clone(s.spared)}
	for _, r := range s.runners {
		f.Known[r.config.Pool] = r.config.Subnets()
		switch passage, node := r.passes(); passage {
		case passageWanted:
			f.Pools, f.Node = append(f.Pools, r.config), node
		case passageUnknown:
			f.Spared = append(f.Spared, r.config.Pool)
		case passageUnwanted:
		}
	}
	slices.Sort(f.Spared)
	slices.SortFunc(f.Pools, func(a, b *ipam.Config) int { return cmp.Compare(a.Pool, b.Pool) })
	return f, s.found
}

// noteFiltered replaces what the pools have as a problem of the host's filters.
func (s *Span) noteFiltered(ctx context.Context) {
	f, known := s.filtering()
	if !known {
		return
	}
	obstacles, err := s.config.Filter(ctx, f)
	if ctx.Err() != nil {
		return
	}
	failed := ""
	if err != nil {
		failed = strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	s.noteUnfiltered(failed)
	s.each(func(r *runner) {
		var texts []string
		switch passage, _ := r.passes(); {
		case passage == passageUnwanted: // what lets it through would let others in
		case passage == passageUnknown && f.Accept: // what there is may be right
		default:
			texts = obstacles(r.config)
		}
		if failed != "" {
			texts = append(texts, failed)
		}
		r.noteText(Filtered, list(texts))
	})
}

// noteUnfiltered replaces the problem of the filters of a host without pools, and logs a new one.
func (s *Span) noteUnfiltered(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.runners) > 0 {
		text = "" // they have it
	}
	if text != "" && text != s.unfiltered {
		s.config.Logger.Error("what let packets of pools through is not removed", "error", text)
	}
	s.unfiltered = text
}
