// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package pools

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

// claims measures an ADD that claims a block: the first one of a host, and later ones, of
// blocks of one address.
func (s *servers) claims(b *testing.B) {
	const hosts, blocks = 20, 10
	var first, later times
	var got []netip.Addr
	for range hosts {
		h := s.newHost(b, `"pool": "bench-claim", "ranges": [{"subnet": "10.93.0.0/16"}], "blockSize": {"4": 32}`)
		for i := range blocks {
			begun := time.Now()
			a, err := h.add(b, fmt.Sprint("a", i))
			if err != nil {
				b.Fatal(err)
			}
			if i == 0 {
				first.add(begun)
			} else {
				later.add(begun)
			}
			got = append(got, a)
		}
	}
	requireDistinct(b, got)
	done(b)
	first.report(b, "first")
	later.report(b, "later")
}

// nodes start perNode allocations each, all at once.
const nodes, perNode = 50, 20

// writes counts the Raft writes of nodes that are new to the servers and start their
// allocations all at once, and those of as many allocations that stop and start later. Agents
// do a round of what they do after each.
func (s *servers) writes(b *testing.B) {
	var hosts []host
	for range nodes {
		hosts = append(hosts, s.newHost(b, `"pool": "bench-nodes", "ranges": [{"subnet": "10.93.0.0/16"}]`))
	}
	var took time.Duration
	fresh := s.count(b, func() {
		begun := time.Now()
		s.start(b, hosts, "a")
		took = time.Since(begun)
		s.keep(b, hosts)
	})
	steady := s.count(b, func() {
		s.stop(b, hosts, "a")
		s.keep(b, hosts)
		s.start(b, hosts, "b")
		s.keep(b, hosts)
	})
	s.stop(b, hosts, "b")
	done(b)
	b.ReportMetric(took.Seconds(), "fresh-s")
	b.ReportMetric(fresh.raft, "fresh-raft-writes")
	b.ReportMetric(fresh.requests, "fresh-write-requests")
	b.ReportMetric(steady.raft, "steady-raft-writes/1000")
	b.ReportMetric(steady.requests, "steady-write-requests/1000")
}

// written are Raft writes, those of the servers' own among them, and requests to write.
type written struct{ raft, requests float64 }

// count counts what is written meanwhile.
func (s *servers) count(b *testing.B, do func()) written {
	b.Helper()
	index, requests := s.raftIndex(b), s.requests.Load()
	do()
	return written{float64(s.raftIndex(b) - index), float64(s.requests.Load() - requests)}
}

// attempts is how often Nomad calls ADD for an allocation.
const attempts = 3

func (s *servers) start(b *testing.B, hosts []host, name string) {
	b.Helper()
	got := make([]netip.Addr, len(hosts)*perNode)
	s.all(b, hosts, perNode, func(h host, i, j int) (err error) {
		for range attempts {
			if got[i*perNode+j], err = h.add(b, fmt.Sprint(name, j)); err == nil {
				return nil
			}
		}
		return err
	})
	requireDistinct(b, got)
}

func (s *servers) stop(b *testing.B, hosts []host, name string) {
	b.Helper()
	s.all(b, hosts, perNode, func(h host, _, j int) error { return h.del(b, fmt.Sprint(name, j)) })
}

// keep is a round of the agents.
func (s *servers) keep(b *testing.B, hosts []host) {
	b.Helper()
	s.all(b, hosts, 1, func(h host, _, _ int) error {
		_, err := h.Verify(b.Context(), 0)
		_, errMaintain := h.Maintain(b.Context())
		return errors.Join(err, errMaintain)
	})
}

// all calls do that many times for each host, all at once.
func (s *servers) all(b *testing.B, hosts []host, times int, do func(h host, i, j int) error) {
	b.Helper()
	var group errgroup.Group
	for i, h := range hosts {
		for j := range times {
			group.Go(func() error { return do(h, i, j) })
		}
	}
	if err := group.Wait(); err != nil {
		b.Fatal(err)
	}
}
