// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-iptables/iptables"

	"github.com/allocnet/allocnet/cleanup"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/lab"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/portmap"
	"github.com/allocnet/allocnet/selection"
	"github.com/allocnet/allocnet/state"
)

// subject is one way to set up and tear down the first k networks.
type subject struct {
	name     string
	add, del func(k int, id, path string) error
}

// BenchmarkNetworks compares allocnet with a plain loop over libcni, one call
// after the other, and with one that makes all calls at once: same networks,
// same plugins, in turn within each iteration. The figures are medians.
func BenchmarkNetworks(b *testing.B) {
	conf := lab.WriteConf(b)
	lab.Warm(b, conf)
	plain := lab.NewPlain(b, conf)
	subjects := []subject{
		{"sequential", plain.AddSequential, plain.DelSequential},
		{"parallel", plain.AddParallel, plain.DelParallel},
		engineSubject(b, conf),
	}
	for _, k := range []int{1, 2, 3, 5} {
		b.Run(fmt.Sprintf("k=%d", k), func(b *testing.B) {
			adds, dels := make([][]float64, len(subjects)), make([][]float64, len(subjects))
			round := 0
			for b.Loop() {
				for at := range subjects {
					i := (at + round) % len(subjects) // nobody is always first
					add, del := measure(b, subjects[i], k)
					adds[i], dels[i] = append(adds[i], add), append(dels[i], del)
				}
				round++
			}
			for i, s := range subjects {
				b.ReportMetric(median(adds[i]), s.name+"-add-ms")
				b.ReportMetric(median(dels[i]), s.name+"-del-ms")
			}
			b.ReportMetric(median(adds[2])/median(adds[1]), "add/parallel")
			b.ReportMetric(median(dels[2])/median(dels[1]), "del/parallel")
			b.ReportMetric(0, "ns/op") // of all three together it says nothing
		})
	}
}

// engineSubject is allocnet, with its records on the machine's disk.
func engineSubject(b *testing.B, conf string) subject {
	engine, err := hook.NewEngine(hook.Config{ConfDir: conf, PluginDirs: []string{lab.PluginDir()}, StateDir: filepath.Join(b.TempDir(), "state")})
	if err != nil {
		b.Fatal(err)
	}
	extra := []selection.Element{{Name: "storage"}, {Name: "peer"}, {Name: "vlan"}, {Name: "fixed", IPs: []string{"10.92.0.250/16"}}}
	add := func(k int, id, path string) error {
		_, err := engine.Setup(context.Background(), hook.Request{
			ID: id, Netns: path, Primary: &selection.Element{Name: "web"}, Networks: extra[:k-1],
			Ports: []portmap.Port{{Label: "http", HostPort: 4000, To: 80, Protocol: "tcp"}},
		})
		return err
	}
	del := func(_ int, id, _ string) error { return engine.Teardown(context.Background(), id) }
	return subject{"allocnet", add, del}
}

// measure returns how many milliseconds a subject takes.
func measure(b *testing.B, s subject, k int) (add, del float64) {
	path, err := netns.Create(netns.DefaultDir, "bench")
	if err != nil {
		b.Fatal(err)
	}
	defer netns.Remove(path)
	begun := time.Now()
	if err := s.add(k, "bench", path); err != nil {
		b.Fatalf("%s: %v", s.name, err)
	}
	added := time.Now()
	if err := s.del(k, "bench", path); err != nil {
		b.Fatalf("%s: %v", s.name, err)
	}
	return ms(added.Sub(begun)), ms(time.Since(added))
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// BenchmarkGC compares a collection of the host with Nomad's way of removing
// one allocation's masquerade: list, delete, flush and delete the chain, a
// process each; that is measured on 50 and scaled. Nomad's way leaves the port
// rules and the lease; gc removes those too.
func BenchmarkGC(b *testing.B) {
	conf := lab.WriteConf(b)
	lab.Warm(b, conf)
	store, err := state.Open(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	collector := &cleanup.Collector{Store: store, ConfDir: conf}
	for _, n := range []int{1000, 10000} {
		b.Run(fmt.Sprintf("leaks=%d", n), func(b *testing.B) {
			var ours, theirs []float64
			for range 3 {
				leak(b, n)
				theirs = append(theirs, nomadsWay(b, n, 50))
				begun := time.Now()
				report, err := collector.Collect(context.Background(), cleanup.Scope{}, cleanup.NobodyElse)
				if err != nil || report.Removed < 2*n {
					b.Fatalf("removed %+v: %v", report, err)
				}
				ours = append(ours, time.Since(begun).Seconds()*1000)
			}
			for b.Loop() { // done above: an iteration would be thousands of leaks
			}
			b.ReportMetric(median(ours), "gc-ms")
			b.ReportMetric(median(ours)*1000/float64(n), "gc-us/leak")
			b.ReportMetric(median(theirs)/median(ours), "nomads-way/gc")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// nomadsWay removes the masquerade of the last few of n leaks and returns what
// all of them would take, in milliseconds.
func nomadsWay(b *testing.B, n, sample int) float64 {
	b.Helper()
	tables, err := iptables.New()
	if err != nil {
		b.Fatal(err)
	}
	begun := time.Now()
	for i := n - sample; i < n; i++ {
		id := fmt.Sprintf("leak-%06d", i)
		chain := "CNI-" + sha("web"+id, 24)
		rules, err := tables.List("nat", "POSTROUTING")
		if err != nil || !slices.ContainsFunc(rules, func(rule string) bool { return strings.Contains(rule, id) }) {
			b.Fatalf("%s is not among the rules: %v", id, err)
		}
		rule := []string{"-s", leakAddress(i) + "/32", "-m", "comment", "--comment", fmt.Sprintf("name: %q id: %q", "web", id), "-j", chain}
		for _, err := range []error{tables.Delete("nat", "POSTROUTING", rule...), tables.ClearChain("nat", chain), tables.DeleteChain("nat", chain)} {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
	return time.Since(begun).Seconds() * 1000 * float64(n) / float64(sample)
}
