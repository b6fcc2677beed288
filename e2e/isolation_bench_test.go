// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containernetworking/cni/libcni"
	"golang.org/x/sync/errgroup"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/internal/sandbox/stream"
	"github.com/allocnet/allocnet/isolation"
	"github.com/allocnet/allocnet/policy"
	"github.com/allocnet/allocnet/selection"
)

// isolationBench is a host with allocations of many jobs, two on each network after the other, and two that are measured. All of it is real: the
// allocations have namespaces, links and records, and nothing listens in them.
type isolationBench struct {
	*peers
	engine *hook.Engine
	// client and server are allocations of two networks.
	client, server *hook.Allocation
}

const (
	// crowded is how many allocations there are, and mostRules how many rules.
	crowded, mostRules = 1000, 10000
	// isolationRounds is how often each figure is taken.
	isolationRounds = 10
	// seen is when the agent has seen that files have changed, and keeps what it reads of them: not of one that has changed within two seconds.
	seen = 3 * time.Second
	// rest is when the agent has looked at what a detach has removed.
	rest = 1500 * time.Millisecond
)

// noRules is a host without isolation, beside numbers of rules.
const noRules = -1

// BenchmarkIsolation measures, on a host with 1,000 allocations, one more attachment with 10,000 rules to one without isolation; and how long it takes until a change of the file holds, while an allowed flow goes on. What is compared comes in turn.
func BenchmarkIsolation(b *testing.B) {
	h := newIsolationBench(b)
	h.startAgent(b)
	b.Run("attach", h.attach)
	b.Run("change", h.change)
}

func newIsolationBench(b *testing.B) *isolationBench {
	b.Helper()
	conf := b.TempDir()
	h := &isolationBench{peers: &peers{conf: conf}}
	err := os.MkdirAll(filepath.Dir(isolation.DefaultFile), 0o755)
	if err != nil {
		b.Fatal(err)
	}
	h.install(b, 0)
	h.peers = newPeers(b, conf)
	if h.engine, err = hook.NewEngine(hook.Config{ConfDirs: []string{conf}, PluginDirs: []string{sandbox.PluginDir()}, StateDir: h.state}); err != nil {
		b.Fatal(err)
	}
	h.client, h.server = h.setUp(b, "client", "front", "job0"), h.setUp(b, "server", "back", "job1")
	h.crowd(b)
	return h
}

// crowd attaches the allocations that share the host.
func (h *isolationBench) crowd(b *testing.B) {
	b.Helper()
	all := func(call func(i int) error) error {
		var group errgroup.Group
		group.SetLimit(16)
		for i := range crowded - 2 {
			group.Go(func() error { return call(i) })
		}
		return group.Wait()
	}
	err := all(func(i int) error {
		_, err := h.engine.Setup(context.Background(), benchRequest(fmt.Sprintf("other-%d", i), []string{"front", "back"}[i%2], fmt.Sprintf("job%d", i/2)))
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := all(func(i int) error { return h.engine.Teardown(context.Background(), fmt.Sprintf("other-%d", i)) }); err != nil {
			b.Error(err)
		}
	})
}

func benchRequest(id, network, job string) hook.Request {
	return hook.Request{ID: id, Primary: &selection.Element{Name: network}, Identity: policy.Identity{Namespace: "prod", Job: job, Group: "g"}}
}

func (h *isolationBench) setUp(b *testing.B, id, network, job string) *hook.Allocation {
	b.Helper()
	a, err := h.engine.Setup(context.Background(), benchRequest(id, network, job))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := h.engine.Teardown(context.Background(), id); err != nil {
			b.Error(err)
		}
	})
	return a
}

// install has the host have so many rules, of which each lets a job reach the next one, and has networks isolated unless it is without isolation.
func (h *isolationBench) install(b *testing.B, rules int, more ...string) {
	b.Helper()
	for i, level := range []isolation.Level{isolation.Network, isolation.Strict} {
		if rules == noRules {
			level = isolation.None
		}
		name := []string{"front", "back"}[i]
		h.replace(b, filepath.Join(h.conf, name+".conflist"), fmt.Sprintf(`{"cniVersion": "1.0.0", "name": %[1]q, "allocnet": {"ipv6": "off", "isolation": %[2]q}, "plugins": [
			{"type": "bridge", "bridge": "%[1]s0", "isGateway": true, "ipMasq": true, "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.%[3]d.0.0/16"}]], "routes": [{"dst": "0.0.0.0/0"}]}}, {"type": "portmap", "capabilities": {"portMappings": true}}]}`, name, level, 106+i))
	}
	var text strings.Builder
	for i := range rules {
		fmt.Fprintf(&text, "allow \"rule %d\" {\n  from {\n    namespace = \"prod\"\n    job       = \"job%d\"\n  }\n  to { job = \"job%d\" }\n  ports = [\"7/tcp\", \"9/tcp\"]\n}\n", i, i, i+1)
	}
	for _, rule := range more {
		text.WriteString(rule)
	}
	if text.Len() > 0 {
		h.replace(b, isolation.DefaultFile, text.String())
	} else if err := os.Remove(isolation.DefaultFile); err != nil && !errors.Is(err, os.ErrNotExist) {
		b.Fatal(err)
	}
	if h.engine == nil {
		return
	}
	if err := h.engine.Isolation().Refresh(context.Background()); err != nil {
		b.Fatal(err)
	}
}

// replace replaces a file in one step, as operators do.
func (h *isolationBench) replace(b *testing.B, path, text string) {
	b.Helper()
	sandbox.WriteFile(b, path+".new", text)
	if err := os.Rename(path+".new", path); err != nil {
		b.Fatal(err)
	}
}

// medianRatio is the median of the ratios within a round.
func medianRatio(values, others []float64) float64 {
	var ratios []float64
	for i := range values {
		ratios = append(ratios, values[i]/others[i])
	}
	return median(ratios)
}

// attach compares one more attachment: of a job of which there is one, and of one that rules name and of which there is none; at rest, and at once
// after another has ended, when the agent looks at what that has removed.
func (h *isolationBench) attach(b *testing.B) {
	fresh, adds, dels := crowded, map[string][]float64{}, map[string][]float64{}
	for round := range isolationRounds {
		for i := range 2 {
			n := []int{noRules, mostRules}[(i+round)%2]
			h.install(b, n)
			time.Sleep(seen)
			measure(b, h.subject(b, "job7", true), 1) // the agent reads the rules
			for name, way := range attachWays {
				job := "job7"
				if way.isNew {
					fresh, job = fresh+1, fmt.Sprintf("job%d", fresh)
				}
				if way.isNew && n == noRules {
					continue
				}
				if way.atRest {
					time.Sleep(rest)
				} else {
					measure(b, h.subject(b, "job9", way.byAgent), 1)
				}
				m := measure(b, h.subject(b, job, way.byAgent), 1)
				key := fmt.Sprintf("%s %d", name, n)
				adds[key], dels[key] = append(adds[key], m.add), append(dels[key], m.del)
			}
		}
	}
	for b.Loop() { // measured above
	}
	b.ReportMetric(0, "ns/op")
	for name, way := range attachWays {
		none := fmt.Sprintf("%s %d", way.none, noRules)
		if name == way.none {
			b.ReportMetric(median(adds[none]), name+"-none-add-ms")
			b.ReportMetric(median(dels[none]), name+"-none-del-ms")
		}
		key := fmt.Sprintf("%s %d", name, mostRules)
		b.ReportMetric(medianRatio(adds[key], adds[none]), name+"-add/none")
		b.ReportMetric(medianRatio(dels[key], dels[none]), name+"-del/none")
	}
}

// attachWay is a way of one more attachment.
type attachWay struct {
	byAgent, isNew, atRest bool
	// none is the way that it is compared with, without isolation.
	none string
}

var attachWays = func() map[string]attachWay {
	all := map[string]attachWay{}
	for _, agent := range []string{"by-agent", "allocnet"} {
		for _, when := range []string{"rest", "busy"} {
			for _, kind := range []string{"known", "new"} {
				all[strings.Join([]string{agent, when, kind}, "-")] = attachWay{agent == "by-agent", kind == "new", when == "rest", strings.Join([]string{agent, when, "known"}, "-")}
			}
		}
	}
	return all
}()

// subject is allocnet-cni as Nomad calls it for an allocation of a job.
func (h *isolationBench) subject(b *testing.B, job string, agent bool) subject {
	b.Helper()
	keys := ""
	if agent {
		keys = fmt.Sprintf(`, "agent": {"socket": %q, "mode": "require"}`, h.socket)
	}
	list, err := libcni.NetworkConfFromBytes(fmt.Appendf(nil, `{"cniVersion": "1.0.0", "name": "multi", "plugins": [{"type": "allocnet-cni", "capabilities": {"portMappings": true}, "primary": "front", "confDir": %q, "stateDir": %q%s}]}`, h.conf, h.state, keys))
	if err != nil {
		b.Fatal(err)
	}
	s := called(job, []string{h.bin, sandbox.PluginDir()}, func(int) *libcni.NetworkConfigList { return list }, func(int) [][2]string {
		return [][2]string{{"IgnoreUnknown", "true"}, {"NOMAD_ALLOC_ID", "bench"}, {"NOMAD_NAMESPACE", "prod"}, {"NOMAD_JOB_ID", job}, {"NOMAD_GROUP_NAME", "g"}}
	})
	if s.forked = !agent; agent {
		s.agent = h.agent
	}
	return s
}

// change measures how long it takes from when the file is replaced until what one more rule of 10,000, or another one in each, allows is reached, by the agent.
func (h *isolationBench) change(b *testing.B) {
	address := h.server.Attachments[0].Addresses[0].Addr().String()
	h.install(b, mostRules)
	for _, port := range []string{":7", ":10"} {
		stream.Listen(b, h.server.Netns, port)
	}
	talk := stream.StartTalk(b, stream.Way{Name: "that is allowed", From: h.client.Netns, To: net.JoinHostPort(address, "7")})
	took := map[string][]float64{}
	for range isolationRounds {
		for name, change := range map[string]func(text string) string{
			"one": func(text string) string { return strings.Replace(text, `"9/tcp"`, `"10/tcp"`, 1) }, // of job0, the client's
			"all": func(text string) string { return strings.ReplaceAll(text, `"9/tcp"`, `"10/tcp"`) },
		} {
			h.install(b, mostRules)
			time.Sleep(seen)
			text, err := os.ReadFile(isolation.DefaultFile)
			if err != nil {
				b.Fatal(err)
			}
			begun := time.Now()
			h.replace(b, isolation.DefaultFile, change(string(text)))
			awaitConnection(b, h.client.Netns, net.JoinHostPort(address, "10"))
			took[name] = append(took[name], ms(time.Since(begun)))
		}
	}
	stream.RequireKept(b, talk)
	for b.Loop() { // measured above
	}
	b.ReportMetric(0, "ns/op")
	for name, values := range took {
		b.ReportMetric(median(values), name+"-ms")
	}
}

// awaitConnection returns once a connection can be made from a namespace. One begins every few milliseconds: what is sent before it may pass is sent again after a second only.
func awaitConnection(b *testing.B, path, to string) {
	b.Helper()
	ns, err := netns.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithTimeout(context.Background(), 2*time.Minute)
	made, ticker := make(chan struct{}, 1), time.NewTicker(20*time.Millisecond)
	var group sync.WaitGroup
	defer func() {
		stop()
		ticker.Stop()
		group.Wait()
		_ = ns.Close()
	}()
	for {
		group.Go(func() {
			_ = ns.Do(func() error {
				conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", to)
				if err == nil {
					_ = conn.Close()
					select {
					case made <- struct{}{}:
					default:
					}
				}
				return err
			})
		})
		select {
		case <-made:
			return
		case <-ctx.Done():
			b.Fatal("the rule does not hold")
		case <-ticker.C:
		}
	}
}
