// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/policy"
)

// BenchmarkAtOnce attaches many allocations of three networks without IPv6, 16 at a time, as on a node that restarts, and
// detaches them; and as many a second as one caller does on an empty host is 1.
func BenchmarkAtOnce(b *testing.B) {
	for _, backend := range []string{"iptables", "nftables"} {
		b.Run(backend, func(b *testing.B) {
			p := newPeers(b, benchConf(b, backend, policy.IPv6Off))
			p.startAgent(b)
			plain := sandbox.NewPlain(b, p.conf)
			libcni := subject{name: "sequential", add: plain.AddSequential, del: plain.DelSequential}
			for _, s := range []subject{p.own(b, ""), p.byAgent(b, ""), libcni} {
				b.Run(s.name, func(b *testing.B) {
					one := rates(b, s, 100, 1, throughput{})
					rates(b, s, 200, 16, one)
					if s.name != libcni.name || backend == "nftables" { // iptables takes a quarter of an hour
						rates(b, s, 1000, 16, one)
					}
				})
			}
		})
	}
}

// rates measures many allocations as a benchmark of its own, and compares it with one at a time.
func rates(b *testing.B, s subject, allocations, width int, one throughput) (got throughput) {
	b.Run(fmt.Sprintf("allocations=%d/width=%d", allocations, width), func(b *testing.B) {
		got = atOnce(b, s, allocations, width)
		for b.Loop() { // measured above: one iteration is many allocations
		}
		for name, phase := range map[string]phase{"add": got.add, "del": got.del} {
			b.ReportMetric(phase.rate, name+"s/s")
			b.ReportMetric(phase.busy, name+"-busy-cpus")
		}
		if one != (throughput{}) {
			b.ReportMetric(got.add.rate/one.add.rate, "adds/one")
			b.ReportMetric(got.del.rate/one.del.rate, "dels/one")
		}
		if s.agent != 0 {
			b.ReportMetric(got.resident, "agent-MiB")
		}
		b.ReportMetric(0, "ns/op")
	})
	return got
}

// throughput is what many allocations take.
type throughput struct {
	add, del phase
	// resident is the memory of the agent while all are attached, in MiB.
	resident float64
}

// phase is how many calls end in a second, and how many processors work meanwhile, the kernel's work included.
type phase struct{ rate, busy float64 }

// atOnce attaches allocations, width of them at a time, and detaches them.
func atOnce(b *testing.B, s subject, allocations, width int) (t throughput) {
	b.Helper()
	paths := make([]string, allocations)
	for i := range paths {
		path, err := netns.Create(netns.DefaultDir, fmt.Sprintf("once-%d", i))
		if err != nil {
			b.Fatal(err)
		}
		defer netns.Remove(path)
		paths[i] = path
	}
	all := func(call func(k int, id, path string) error) phase {
		begun, busy := time.Now(), cpuTicks(b)
		var group errgroup.Group
		group.SetLimit(width)
		for i, path := range paths {
			group.Go(func() error { return call(3, fmt.Sprintf("once-%d", i), path) })
		}
		if err := group.Wait(); err != nil {
			b.Fatalf("%s: %v", s.name, err)
		}
		seconds := time.Since(begun).Seconds()
		return phase{float64(allocations) / seconds, float64(cpuTicks(b)-busy) / ticksPerSecond / seconds}
	}
	settle(b)
	t.add = all(s.add)
	if s.agent != 0 {
		t.resident = resident(b, s.agent)
	}
	t.del = all(s.del)
	return t
}
