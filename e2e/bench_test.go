// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-iptables/iptables"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/cleanup"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/portmap"
	"github.com/allocnet/allocnet/selection"
	"github.com/allocnet/allocnet/state"
)

// subject is one way to set up and tear down the first k networks.
type subject struct {
	name     string
	add, del func(k int, id, path string) error
	// log is the file to which it logs plugin calls; empty for none.
	log string
	// forked is whether all of its work is done in processes that this one waits for, and in the
	// agent, so that their CPU time is known.
	forked bool
	// agent is the process ID of the agent that works for it; 0 for none.
	agent int
}

// BenchmarkNetworks compares allocnet with a plain loop over libcni, one call
// after the other, and with one that makes all calls at once: same networks,
// same plugins, in turn within each iteration. The figures are medians.
func BenchmarkNetworks(b *testing.B) {
	conf := sandbox.WriteConf(b)
	fixed := filepath.Join(conf, "50-fixed.conflist") // the engine refuses addresses that a job may not choose
	sandbox.WriteFile(b, fixed, strings.Replace(read(b, fixed), `"name": "fixed",`, `"name": "fixed", "allocnet": {"staticIPs": ["10.92.0.0/16"]},`, 1))
	sandbox.Warm(b, conf)
	plain := sandbox.NewPlain(b, conf)
	subjects := []subject{
		{name: "sequential", add: plain.AddSequential, del: plain.DelSequential},
		{name: "parallel", add: plain.AddParallel, del: plain.DelParallel},
		engineSubject(b, "allocnet", hook.Config{ConfDirs: []string{conf}}),
	}
	for _, k := range []int{1, 2, 3, 5} {
		b.Run(fmt.Sprintf("k=%d", k), func(b *testing.B) {
			adds, dels := compare(b, subjects, k)
			b.ReportMetric(adds[2]/adds[1], "add/parallel")
			b.ReportMetric(dels[2]/dels[1], "del/parallel")
		})
	}
}

// BenchmarkLeft compares DEL of executed plugins after which is looked for what they have left with DEL that is believed.
func BenchmarkLeft(b *testing.B) {
	conf := sandbox.WriteConf(b)
	sandbox.Warm(b, conf)
	config := hook.Config{ConfDirs: []string{conf}, Executor: hook.ExecutorPlugins}
	subjects := []subject{engineSubject(b, "plugins", config)}
	config.Cleaner = believing{&cleanup.Cleaner{}}
	subjects = append(subjects, engineSubject(b, "believed", config))
	for _, k := range []int{1, 3} {
		b.Run(fmt.Sprintf("k=%d", k), func(b *testing.B) {
			_, dels := compare(b, subjects, k)
			b.ReportMetric(dels[0]/dels[1], "del/believed")
		})
	}
}

// believing is a cleaner that does not look for what plugins have left.
type believing struct{ *cleanup.Cleaner }

func (believing) Left(context.Context, state.Attachment, string) error { return nil }

// engineSubject is allocnet, with its records on the machine's disk.
func engineSubject(b *testing.B, name string, config hook.Config) subject {
	config.PluginDirs, config.StateDir = []string{sandbox.PluginDir()}, filepath.Join(b.TempDir(), "state")
	engine, err := hook.NewEngine(config)
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
	return subject{name: name, add: add, del: del}
}

// compare reports the medians of each subject, and returns them. They come in
// turn within each iteration.
func compare(b *testing.B, subjects []subject, k int) (adds, dels []float64) {
	all := make([][]sample, len(subjects))
	round := 0
	for b.Loop() {
		for at := range subjects {
			i := (at + round) % len(subjects) // none is always first
			all[i] = append(all[i], measure(b, subjects[i], k))
		}
		round++
	}
	for i, s := range subjects {
		of := func(figure func(sample) float64) float64 {
			var values []float64
			for _, s := range all[i] {
				values = append(values, figure(s))
			}
			return median(values)
		}
		adds = append(adds, of(func(s sample) float64 { return s.add }))
		dels = append(dels, of(func(s sample) float64 { return s.del }))
		b.ReportMetric(adds[i], s.name+"-add-ms")
		b.ReportMetric(dels[i], s.name+"-del-ms")
		if s.forked {
			b.ReportMetric(of(func(s sample) float64 { return s.addCPU }), s.name+"-add-cpu-ms")
			b.ReportMetric(of(func(s sample) float64 { return s.delCPU }), s.name+"-del-cpu-ms")
		}
		if s.log != "" {
			b.ReportMetric(of(func(s sample) float64 { return s.add - s.addCalls }), s.name+"-own-add-ms")
			b.ReportMetric(of(func(s sample) float64 { return s.del - s.delCalls }), s.name+"-own-del-ms")
		}
	}
	b.ReportMetric(0, "ns/op") // the sum of all subjects has no meaning
	return adds, dels
}

// sample has the milliseconds that a subject took, those of them that were calls for its
// slowest network, and those of CPU time.
type sample struct{ add, addCalls, addCPU, del, delCalls, delCPU float64 }

func measure(b *testing.B, s subject, k int) (m sample) {
	path, err := netns.Create(netns.DefaultDir, "bench")
	if err != nil {
		b.Fatal(err)
	}
	defer netns.Remove(path)
	m.add, m.addCPU = s.timed(b, func() error { return s.add(k, "bench", path) })
	m.addCalls = s.longest(b)
	m.del, m.delCPU = s.timed(b, func() error { return s.del(k, "bench", path) })
	m.delCalls = s.longest(b)
	return m
}

// timed returns the milliseconds that a call takes, and those of CPU time of the processes
// that it waits for, and of the agent.
func (s subject) timed(b *testing.B, call func() error) (took, cpu float64) {
	b.Helper()
	used, begun := s.cpu(b), time.Now()
	if err := call(); err != nil {
		b.Fatalf("%s: %v", s.name, err)
	}
	took = ms(time.Since(begun))
	return took, ms(s.cpu(b) - used)
}

func (s subject) cpu(b *testing.B) time.Duration {
	b.Helper()
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_CHILDREN, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano()+usage.Stime.Nano()) + processCPU(b, s.agent)
}

// processCPU is the CPU time of a process, by the clock that it has for it (see clock_getcpuclockid(3)).
func processCPU(b *testing.B, pid int) time.Duration {
	b.Helper()
	if pid == 0 {
		return 0
	}
	var used unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|2), &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Nano())
}

var (
	pluginCall = regexp.MustCompile(`plugin call: .*network=(\S+) .*took=(\S+)`)
	commitCall = regexp.MustCompile(`networks committed: .*took=(\S+)`)
)

// longest returns the duration of the logged plugin calls of the slowest network, and of the
// commit of all networks, and empties the log.
func (s subject) longest(b *testing.B) (most float64) {
	if s.log == "" {
		return 0
	}
	text, err := os.ReadFile(s.log)
	if err == nil {
		err = os.Truncate(s.log, 0)
	}
	if err != nil {
		b.Fatal(err)
	}
	took := map[string]float64{}
	for _, call := range pluginCall.FindAllStringSubmatch(string(text), -1) {
		took[call[1]] += milliseconds(b, call[2])
		most = max(most, took[call[1]])
	}
	if most == 0 {
		b.Fatalf("no plugin call in %s", text)
	}
	for _, call := range commitCall.FindAllStringSubmatch(string(text), -1) {
		most += milliseconds(b, call[1])
	}
	return most
}

func milliseconds(b *testing.B, text string) float64 {
	b.Helper()
	d, err := time.ParseDuration(text)
	if err != nil {
		b.Fatal(err)
	}
	return ms(d)
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
	conf := sandbox.WriteConf(b)
	sandbox.Warm(b, conf)
	store, err := state.Open(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	collector := &cleanup.Collector{Store: store, ConfDirs: []string{conf}}
	for _, n := range []int{1000, 10000} {
		b.Run(fmt.Sprintf("leaks=%d", n), func(b *testing.B) {
			var ours, theirs []float64
			for range 3 {
				leak(b, n)
				theirs = append(theirs, nomadsWay(b, n, 50))
				begun := time.Now()
				report, err := collector.Collect(context.Background(), cleanup.Scope{}, cleanup.NoneLive)
				if err != nil || report.Removed < 2*n {
					b.Fatalf("removed %+v: %v", report, err)
				}
				ours = append(ours, time.Since(begun).Seconds()*1000)
			}
			for b.Loop() { // measured above: one iteration would be thousands of leaks
			}
			b.ReportMetric(median(ours), "gc-ms")
			b.ReportMetric(median(ours)*1000/float64(n), "gc-us/leak")
			b.ReportMetric(median(theirs)/median(ours), "nomads-way/gc")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// nomadsWay removes the masquerade of the last few of n leaks as Nomad does. It returns
// the milliseconds that all n would take.
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
