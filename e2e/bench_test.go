// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/lab"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/portmap"
	"github.com/allocnet/allocnet/selection"
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
