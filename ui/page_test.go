// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ui

import (
	"context"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/allocation"
	"github.com/allocnet/allocnet/internal/texts"
	"github.com/allocnet/allocnet/ui/uitest"
)

// paths are those of all pages, and of an allocation.
var paths = []string{"", "map", "allocations", "allocations/a-1", "pools", "cluster", "events", "problems"}

// requireText fails unless the answer is a page that has all texts.
func (r *running) requireText(path string, texts ...string) {
	r.Helper()
	got := r.page(path)
	if got.status != http.StatusOK {
		r.Errorf("%s: status %d", path, got.status)
	}
	for _, text := range texts {
		if !strings.Contains(got.body, text) {
			r.Errorf("%s has no %q", path, text)
		}
	}
}

// eventually waits until the feed has n events.
func (r *running) eventually(n int) {
	r.Helper()
	for {
		_, changed := r.server.feed.next()
		if len(r.server.feed.newest(n, func(api.Event) bool { return true })) == n {
			return
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			r.Fatal("the events do not come")
		}
	}
}

// TestPages: what each page shows of a busy host, and of an empty one.
func TestPages(t *testing.T) {
	now := time.Now()
	r := start(t)
	r.agent.Fill(12, now)
	r.enter().eventually(60)
	id := uitest.Allocations(12, now)[2].ID
	r.requireText("", ">ready<", ">12<", "24 attachments", "57 <span", "of 61 IPv4", "1.8 × 10¹⁹ IPv6", "1 of 2", "3 more problems", "60 operations in the last 15 minutes, 5 of them failed", "collected")
	r.requireText("allocations", "12 allocations", `title="`+id+`"`, "data/postgres · primary", "10.88.0.4/16", "20002→8080/tcp", ">pending<")
	r.requireText("allocations/"+id, "<h1 class=\"id\">"+id, "02:00:00:00:00:02", "device or resource busy", "via 10.88.0.1", "9000", "sidecar", "4 rules, ", "1 missing", ">missing<", "CNI-FORWARD", "net1: the network has plugins", "10.91.0.0/26", "has the lease", "in-process", "bridge, portmap, firewall", "&#34;dnsSelection&#34;", "/run/netns/"+id, "&#34;cniVersion&#34;: &#34;1.0.0&#34;", "attach failed")
	r.requireText("pools", "bridge, portmap, firewall", "does not exist", "40-old.conflist: line 3", "57 used, 9 cooling, 60 free", "10.91.0.64/26", "client-3", "does not answer (unavailable)")
	r.requireText("cluster", "192.0.2.11", "1450", "client-2", "via 192.0.2.12 on eth0, routed", "0.42 ms", "no answer within 1s", "conflict", "another program has a route")
	r.requireText("events", "repaired", "missing: bridge web0; address 10.88.0.1/16 of web0; rules of its chains removed by nft (PID 4711), started by bash", "collected", "detached", "could not set bridge&#39;s mac", "allocnet-cni")
	r.requireText("problems", "not removed: the chain is used", "CNI-DN-8ce2a1f0b7d64c1e9f3a2", "device or resource busy", "client-3", "vlan100")
	r.requireText("problems", ">drift<", "eth1 is down", "eth0 on web is not as it was attached", "found <time", "missing: address 10.88.0.2/16 of eth0", "not repaired: address", "6 repairs in short", "9 repairs in short")
	r.requireText("map", "map.svg", "data/postgres", ">3 allocations<", "eth1 is down", "10.88.0.4", "Only problems")
	empty := start(t).enter()
	empty.requireText("", "There is no network", "There is no event yet", "not examined yet")
	empty.requireText("allocations", "No allocation is set up")
	empty.requireText("pools", "There is no network", "No network of this host uses a pool")
	empty.requireText("cluster", "No network of this host spans hosts")
	empty.requireText("events", "There is no event yet")
	empty.requireText("problems", "No problem is known", "The host was not examined yet")
	for _, path := range []string{"nothing", "allocations/none", "allocations/a/b"} {
		if got := empty.page(path); got.status != http.StatusNotFound {
			t.Errorf("%s: status %d", path, got.status)
		}
	}
}

// TestUnsupported: an agent whose networks are managed elsewhere has no problem by that.
func TestUnsupported(t *testing.T) {
	r := start(t)
	for _, path := range []string{api.PathPools, api.PathLeaks, api.PathCluster, api.PathMap, api.PathRepair, api.PathDetails, api.PathDenied} {
		r.agent.Set(path, &api.Error{CNIVersion: "1.1.0", Code: api.CodeUnsupported, Msg: "unsupported", Status: http.StatusNotImplemented})
	}
	r.enter().requireText("problems", "No problem is known", "managed elsewhere")
	r.requireText("pools", "This agent has no pools")
	r.requireText("cluster", "managed elsewhere")
	r.agent.Set(api.PathAllocations, []*api.Allocation{{ID: "a-1"}})
	r.requireText("allocations/a-1", "Not known: unsupported")
	r.agent.Set(api.PathDetails, api.Details{})
	r.requireText("allocations/a-1", "no rules of its own", "No address of it is from a pool")
	r.requireText("")
}

// TestProblems: an agent that is not ready, and parts that it cannot answer, are problems; the
// rest of the page is shown.
func TestProblems(t *testing.T) {
	r := start(t)
	r.agent.Set(api.PathReady, &api.Error{CNIVersion: "1.1.0", Code: 50, Msg: "not ready", Details: "no network in /etc/cni/net.d", Status: 503})
	r.agent.Set(api.PathNetworks, &api.Error{CNIVersion: "1.1.0", Code: 999, Msg: "disk full", Status: 500})
	r.agent.Set(api.PathLeaks, api.Leaks{Examined: time.Now(), Problems: []string{"nft: missing"}})
	r.agent.Set(api.PathAllocations, []*api.Allocation{{ID: "a-1", Error: "unknown version 9", Damaged: []string{"line 2"}}})
	r.enter().requireText("", "not ready", "no network in /etc/cni/net.d", "disk full", "unknown version 9")
	r.requireText("problems", "networks unknown", "disk full", "not examined: nft: missing", "the record is damaged: line 2", "No leak is left")
	r.requireText("allocations", "unreadable")
	r.requireText("pools", "disk full")
}

// TestDenied: what isolation has dropped is on the page of the allocation, and counted for its network.
func TestDenied(t *testing.T) {
	r := start(t)
	flow := func(from, to string, port uint16) api.DeniedFlow {
		return api.DeniedFlow{Last: time.Now(), Count: 12, From: allocation.FlowEnd{Allocation: from, Interface: "eth0"}, To: allocation.FlowEnd{Allocation: to, Interface: "eth0"}, Protocol: "tcp", Port: port, Reason: "strict"}
	}
	r.agent.Set(api.PathNetworks, api.Networks{Networks: []api.Network{{Name: "web"}}})
	r.agent.Set(api.PathAllocations, []*api.Allocation{
		{ID: "a-1", Attachments: []allocation.Attachment{{Network: "web", Interface: "eth0", Denied: &allocation.Denied{Packets: 7, Bytes: 420, Forged: 1}}}},
		{ID: "a-2", Attachments: []allocation.Attachment{{Network: "web", Interface: "eth0", Denied: &allocation.Denied{Packets: 2}}}},
	})
	r.agent.Set(api.PathDenied, api.DeniedFlows{Flows: []api.DeniedFlow{flow("a-1", "b-1", 5432), flow("b-1", "a-1", 5433), flow("b-1", "b-2", 5434)}})
	r.enter().requireText("", "10 packets denied")
	r.requireText("allocations/a-1", "packets denied: 7 (420 bytes), forged: 1", "Denied flows", "5432/tcp", "5433/tcp", "strict")
	if body := r.page("allocations/a-1").body; strings.Contains(body, "5434/tcp") {
		t.Error("a flow of others is on the page")
	}
	r.agent.Set(api.PathDenied, api.DeniedFlows{})
	if body := r.page("allocations/a-1").body; strings.Contains(body, "Denied flows") {
		t.Error("without flows there is a list")
	}
}

// TestHostileNames: names are text on every page, whatever is in them.
func TestHostileNames(t *testing.T) {
	const hostile = `"><script>alert(1)</script><img src=x onerror=alert(1)>'` + "\u202e\x1b[2J\u0085javascript:alert(1)"
	r := start(t)
	r.agent.Set(api.PathAllocations, []*api.Allocation{{
		ID: "a-1", Identity: allocation.Identity{Namespace: hostile, Job: hostile, Group: hostile, Region: hostile}, Owner: hostile, Netns: hostile, DNS: allocation.DNS{Servers: []string{hostile}}, DNSSelection: hostile, ResolvConf: hostile, Error: hostile, Damaged: []string{hostile},
		Attachments: []allocation.Attachment{{
			Network: hostile, Interface: hostile, Task: hostile, Phase: hostile, Error: hostile, Result: []byte(`{"a": "</pre><script>alert(1)</script>"}`),
			Observed: allocation.Observed{
				MAC: hostile, DNS: allocation.DNS{Servers: []string{hostile}}, Ports: []allocation.PortMapping{{Protocol: hostile, HostIP: hostile}}, Addresses: []netip.Prefix{netip.MustParsePrefix("10.0.0.1/24")},
			},
		}},
	}, {ID: hostile}})
	r.agent.Set(api.PathNetworks, api.Networks{Networks: []api.Network{{Name: hostile, Path: hostile, CNIVersion: hostile, Plugins: []string{hostile}, Capabilities: []string{hostile}, Problem: hostile, Usage: []api.NetworkUsage{{Family: hostile}}}}, Broken: []string{hostile}})
	r.agent.Set(api.PathPools, api.Pools{Pools: []api.Pool{{Pool: hostile, Families: []api.PoolFamily{{Family: hostile}}, Blocks: []api.PoolBlock{{Block: hostile, State: hostile}}, Problems: []api.PoolProblem{{Problem: hostile, Text: hostile}}}}})
	r.agent.Set(api.PathLeaks, api.Leaks{Examined: time.Now(), Leaks: []api.Leak{{Kind: hostile, Where: hostile, Allocation: hostile, Network: hostile, Reason: hostile, Error: hostile}}, Problems: []string{hostile}})
	r.agent.Set(api.PathCluster, api.Cluster{Pools: []api.ClusterPool{{
		Pool: hostile, Mode: hostile, Address: hostile, Blocks: []string{hostile}, Problems: []api.PoolProblem{{Problem: hostile, Text: hostile}},
		Nodes: []api.ClusterNode{{ID: hostile, Name: hostile, Address: hostile, Routes: []api.ClusterRoute{{Block: hostile, Via: hostile, Device: hostile, Mode: hostile, State: hostile, Reason: hostile}}, Probe: &api.ClusterProbe{Target: hostile, Time: time.Now(), Error: hostile}}},
	}}})
	r.agent.Set(api.PathMap, api.Map{Drift: []api.Drift{{Network: hostile, Text: hostile}, {Network: hostile, Allocation: hostile, Interface: hostile, Text: hostile}}})
	r.agent.Set(api.PathRepair, api.Repair{Mode: hostile, Damaged: []api.Damage{{Allocation: "a-1", Network: hostile, Interface: hostile, RemovedBy: []allocation.Remover{{Name: hostile, Parent: hostile}}, Missing: []string{hostile}, Unrepairable: []string{hostile}, Error: hostile}}, Waiting: []api.WaitingRepair{{Allocation: hostile}}})
	r.agent.Set(api.PathDetails, api.Details{Attachments: []allocation.Details{{
		Interface: hostile, ContainerID: hostile, Executor: hostile, CNIVersion: hostile, Plugins: []string{hostile}, RulesError: hostile,
		Rules: []allocation.Rule{{Program: hostile, Table: hostile, Chain: hostile, Rule: hostile}}, Leases: []allocation.Lease{{Plugin: hostile, Pool: hostile, Problem: hostile}},
	}}})
	end := allocation.FlowEnd{Allocation: "a-1", Interface: hostile, Network: hostile, Link: hostile}
	r.agent.Set(api.PathDenied, api.DeniedFlows{Flows: []api.DeniedFlow{{From: end, To: end, Protocol: hostile, Reason: hostile}}, Deaf: hostile})
	r.agent.Set(api.PathReady, &api.Error{CNIVersion: "1.1.0", Code: 50, Msg: hostile, Details: hostile, Status: 503})
	r.agent.Emit(api.Event{Time: time.Now(), Operation: hostile, Outcome: hostile, Reason: hostile, Caller: hostile, Allocation: "a-1", Namespace: hostile, Job: hostile, Task: hostile, Missing: []string{hostile}, RemovedBy: []allocation.Remover{{Name: hostile, Parent: hostile}}, Networks: []string{hostile}, Interface: hostile, Error: hostile})
	r.enter().eventually(1)
	for _, path := range append([]string{"allocations?q=" + "%22%3E%3Cscript%3E", "events?q=%22%3E%3Cscript%3E", "%22%3E%3Cscript%3E"}, paths...) {
		got := r.page(path)
		for _, bad := range []string{"<script>", "<img src=x", "\u202e", "\x1b", "\u0085", `href="javascript`} {
			if strings.Contains(got.body, bad) {
				t.Errorf("%s has %q:\n%s", path, bad, got.body)
			}
		}
		if path != "%22%3E%3Cscript%3E" && got.status != http.StatusOK {
			t.Errorf("%s: status %d", path, got.status)
		}
	}
}

// TestSilentAgent: while the agent does not answer, each page says so after a bounded time, and
// the pages come back with it.
func TestSilentAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{Agent: silent{}})
		show := s.page(s.overview)
		began := time.Now()
		w := &recorder{header: http.Header{}}
		show(w, (&http.Request{}).WithContext(t.Context()))
		if w.status != http.StatusBadGateway || !strings.Contains(w.body.String(), "deadline exceeded") {
			t.Errorf("status %d: %s", w.status, w.body.String())
		}
		if took := time.Since(began); took != agentTimeout {
			t.Errorf("after %s, want %s", took, agentTimeout)
		}
	})
	r := start(t).enter()
	for _, path := range paths {
		r.agent.Set(api.PathAllocations, &api.Error{CNIVersion: "1.1.0", Code: 999, Msg: "no such file", Status: 500})
		if got := r.page(path); path != "events" && path != "cluster" && path != "map" && path != "allocations/a-1" && (got.status != http.StatusBadGateway || !strings.Contains(got.body, "no such file")) {
			t.Errorf("%s: status %d: %s", path, got.status, got.body)
		}
	}
	r.agent.Set(api.PathAllocations, []*api.Allocation{})
	r.requireText("", ">ready<")
}

// silent is an agent that accepts requests and does not answer.
type silent struct{ Agent }

func (silent) Ready(ctx context.Context) error { return wait(ctx) }

func (silent) Allocations(ctx context.Context) ([]*api.Allocation, error) { return nil, wait(ctx) }

func (silent) Details(ctx context.Context, _ string) (*api.Details, error) { return nil, wait(ctx) }

func (silent) Networks(ctx context.Context) (*api.Networks, error) { return nil, wait(ctx) }

func (silent) Pools(ctx context.Context) (*api.Pools, error) { return nil, wait(ctx) }

func (silent) Leaks(ctx context.Context) (*api.Leaks, error) { return nil, wait(ctx) }

func (silent) Map(ctx context.Context) (*api.Map, error) { return nil, wait(ctx) }

func (silent) Denied(ctx context.Context) (*api.DeniedFlows, error) { return nil, wait(ctx) }

func (silent) Repair(ctx context.Context) (*api.Repair, error) { return nil, wait(ctx) }

func (silent) Cluster(ctx context.Context) (*api.Cluster, error) { return nil, wait(ctx) }

func wait(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// recorder keeps an answer.
type recorder struct {
	header http.Header
	status int
	body   strings.Builder
}

func (w *recorder) Header() http.Header { return w.header }

func (w *recorder) WriteHeader(status int) { w.status = status }

func (w *recorder) Write(data []byte) (int, error) { return w.body.Write(data) }

func TestWords(t *testing.T) {
	for got, want := range map[string]string{
		ago(0): "just now", ago(-time.Hour): "just now", ago(59 * time.Second): "59 s ago", ago(90 * time.Second): "1 min ago", ago(47 * time.Hour): "47 h ago", ago(50 * time.Hour): "2 d ago",
		duration(0.0123): "12 ms", duration(2.345): "2.35 s", texts.Counted(1, "block"): "1 block", texts.Counted(0, "block"): "0 blocks",
		short("5c2e9a0e-7a3c-4f5e-8a8e-0d4f9c1b2a33"): "5c2e9a0e", short("web-1"): "web-1", short("thirty-six-characters-but-no-nomad-id"): "thirty-six-characters-but-no-nomad-id",
		amount(253): "253", amount(65533): "65533", amount(1.8446744073709552e19): "1.8 × 10¹⁹", amount(16777214): "1.7 × 10⁷",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// FuzzVisible: a name is shown without a character that changes how others are shown, and has
// no markup of its own.
func FuzzVisible(f *testing.F) {
	f.Add("web")
	f.Add("<script>\u202e\x00\x1b[2J</td>")
	f.Fuzz(func(t *testing.T, name string) {
		s := New(Config{Host: "host-1"})
		render := func(name string) string {
			w := &recorder{header: http.Header{}}
			p := allocationsPage{Query: name, Allocations: []*api.Allocation{{ID: name, Error: name, Identity: allocation.Identity{Job: name}}}}
			s.render(w, http.StatusOK, "allocations", 1, &content{"allocations", name, p})
			return w.body.String()
		}
		got, plain := render(name), render("x")
		for _, r := range got {
			if r != '\n' && unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
				t.Errorf("%q shows %q", name, r)
			}
		}
		if name != "" && (strings.Count(got, "<") != strings.Count(plain, "<") || strings.Count(got, "<script") != strings.Count(plain, "<script")) {
			t.Errorf("%q has markup:\n%s", name, got)
		}
	})
}
