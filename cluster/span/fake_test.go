// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package span

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/ipam/peers"
	"github.com/allocnet/allocnet/cluster/route"
	"github.com/allocnet/allocnet/internal/echo"
)

// fakeTable keeps the routes of pools as lines of text.
type fakeTable struct {
	mu      sync.Mutex
	calls   []string
	applied map[string]string
	device  error
	apply   error
	// unguarded is that of the reports.
	unguarded error
	changes   chan []string
	refuse    map[string]string
	// damaged is whether the records cannot be read.
	damaged bool
}

func newFakeTable() *fakeTable {
	return &fakeTable{applied: map[string]string{}, changes: make(chan []string), refuse: map[string]string{}}
}

func (f *fakeTable) call(format string, args ...any) {
	f.calls = append(f.calls, fmt.Sprintf(format, args...))
}

func (f *fakeTable) Device(p route.Pool, local ipam.Endpoint) (string, int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.call("device %s %s", p.Name, local.Address)
	return "02:00:00:00:00:01", 1450, f.device
}

func (f *fakeTable) Apply(p route.Pool, own []netip.Prefix, targets []route.Target) (route.Report, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.call("apply %s", p.Name)
	if f.apply != nil {
		return route.Report{}, f.apply
	}
	var lines []string
	report := route.Report{Unguarded: f.unguarded}
	for _, t := range targets {
		made := route.Route{Block: t.Block, Node: t.Node, Via: t.Endpoint.Address, Mode: ipam.ModeRouted, State: route.Installed}
		if reason := f.refuse[t.Block.String()]; reason != "" {
			made.State, made.Reason = route.Refused, reason
			if reason == string(route.Replaced) {
				made.State = route.Replaced
			}
		}
		report.Routes = append(report.Routes, made)
		lines = append(lines, fmt.Sprintf("%s via %s", t.Block, t.Endpoint.Address))
	}
	if text := strings.Join(lines, ", "); f.applied[p.Name] != text {
		f.applied[p.Name] = text
		report.Replaced++
	}
	return report, nil
}

// fail has Apply fail.
func (f *fakeTable) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.apply = err
}

func (f *fakeTable) Remove(p route.Pool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.call("remove %s", p.Name)
	if f.damaged {
		f.call("in %s", p.Subnets)
	}
	delete(f.applied, p.Name)
	return nil
}

func (f *fakeTable) Pools() ([]route.Pool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []route.Pool
	for name := range f.applied {
		p := route.Pool{Name: name, Subnets: []netip.Prefix{netip.MustParsePrefix("10.91.0.0/16")}}
		if f.damaged {
			p.Subnets = nil
		}
		all = append(all, p)
	}
	return all, nil
}

func (f *fakeTable) Changes(context.Context) (<-chan []string, error) { return f.changes, nil }

// took returns the calls since the last time.
func (f *fakeTable) took() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	text := strings.Join(f.calls, ", ")
	f.calls = nil
	return text
}

func (f *fakeTable) routes(pool string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.applied[pool]
}

// answer is one of a fakePeers.
type answer struct {
	blocks peers.Blocks
	err    error
}

// fakePeers gives the answers that it is sent.
type fakePeers chan answer

func (f fakePeers) Next(ctx context.Context) (peers.Blocks, error) {
	select {
	case <-ctx.Done():
		return peers.Blocks{}, ctx.Err()
	case a := <-f:
		return a.blocks, a.err
	}
}

// fakeNomad knows nodes, and counts the questions.
type fakeNomad struct {
	mu    sync.Mutex
	self  Node
	nodes map[string]Node
	err   error
	// short is whether the list has only the first address of each node.
	short bool
	asked []string
}

func (f *fakeNomad) Self(context.Context) (Node, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.self, f.err
}

func (f *fakeNomad) Nodes(context.Context) ([]Node, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, "all")
	var all []Node
	for _, n := range f.nodes {
		if f.short {
			n.Addresses = n.Addresses[:1]
		}
		all = append(all, n)
	}
	return all, f.err
}

func (f *fakeNomad) Node(_ context.Context, id string) (Node, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, id)
	return f.nodes[id], f.err
}

func (f *fakeNomad) set(err error, nodes ...Node) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.nodes, f.err = map[string]Node{}, err
	for _, n := range nodes {
		f.nodes[n.ID] = n
	}
}

// questions returns how many nodes were asked for since the last time.
func (f *fakeNomad) questions() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	text := strings.Join(f.asked, " ")
	f.asked = nil
	return text
}

// fakePool has the last endpoint that it was told, and what has changed.
type fakePool struct {
	mu   sync.Mutex
	last string
	told []string
	err  error
}

func (f *fakePool) SetEndpoint(_ context.Context, e ipam.Endpoint) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return f.err
	}
	if text := fmt.Sprintf("%s %s %s", e.Address, e.LinkLocal, e.MAC); text != f.last {
		f.last, f.told = text, append(f.told, text)
	}
	return nil
}

// lose forgets the endpoint, as a pool whose state directory is lost.
func (f *fakePool) lose() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last = ""
}

func (f *fakePool) got() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	text := strings.Join(f.told, ", ")
	f.told = nil
	return text
}

// host has a pool whose network spans hosts.
type host struct {
	*Span
	table *fakeTable
	peers fakePeers
	nomad *fakeNomad
	pool  *fakePool

	mu       sync.Mutex // guards all below, which tests change while the loops run
	kept     []Kept
	complete bool
	inUse    bool
	unknown  error // of inUse
	address  netip.Addr
	left     bool
	dropped  []string
	// filtered are what the filters should have done, unfiltered is how that failed, and interfaces are
	// those of the pools.
	filtered   []Filtering
	unfiltered error
	interfaces []string
	// disturb tells of changes of the filters.
	disturb chan struct{}
	// watched is whether they were asked for.
	watched atomic.Bool
}

func node(id, address string) Node {
	return Node{ID: id, Name: "name-" + id, Addresses: []netip.Addr{netip.MustParseAddr(address)}}
}

// newHost returns a host whose Nomad knows it and the nodes n1 and n2.
func newHost(t *testing.T, s Settings) *host {
	t.Helper()
	h := &host{table: newFakeTable(), peers: make(fakePeers), nomad: &fakeNomad{self: node("n0", "10.0.0.1")}, pool: &fakePool{}, complete: true, disturb: make(chan struct{}), address: netip.MustParseAddr("10.0.0.1")}
	h.nomad.set(nil, node("n1", "10.0.0.2"), node("n2", "10.0.0.3"))
	h.Span = New(Config{
		Kept: func() ([]Kept, bool) {
			h.mu.Lock()
			defer h.mu.Unlock()
			return h.kept, h.complete
		},
		Open: func(*ipam.Config) (Peers, Nomad) { return h.peers, h.nomad },
		Table: func(needed bool) (Table, error) {
			if !needed && !h.left {
				return nil, nil
			}
			return h.table, nil
		},
		InUse: func(netip.Prefix) (bool, error) {
			h.mu.Lock()
			defer h.mu.Unlock()
			return h.inUse, h.unknown
		},
		LinkLocal: func(a netip.Addr) (netip.Addr, error) {
			h.mu.Lock()
			defer h.mu.Unlock()
			if a != h.address {
				return netip.Addr{}, errors.New("no interface has it")
			}
			return netip.MustParseAddr("fe80::1"), nil
		},
		Ping: func(context.Context, echo.Request) (time.Duration, error) { return time.Millisecond, nil },
		Filter: func(_ context.Context, f Filtering) (Obstacles, error) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.filtered = append(h.filtered, f)
			return func(*ipam.Config) []string { return h.dropped }, h.unfiltered
		},
		WatchFilter: func(ctx context.Context, changed func()) error {
			h.watched.Store(true)
			for {
				select {
				case <-ctx.Done():
					return nil
				case <-h.disturb:
					changed()
				}
			}
		},
		Interfaces: func(Filtering) []string {
			h.mu.Lock()
			defer h.mu.Unlock()
			return h.interfaces
		},
		Logger: hclog.NewNullLogger(),
	}, s)
	return h
}

// keeps sets the pools that networks use.
func (h *host) keeps(complete bool, all ...*ipam.Config) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.complete, h.kept = complete, nil
	for _, c := range all {
		h.kept = append(h.kept, Kept{c, h.pool})
	}
}

func (h *host) set(change func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change()
}

// run starts the host, and returns what ends it.
func (h *host) run(t *testing.T) (end func()) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		h.Run(ctx)
	}()
	return func() {
		stop()
		select {
		case _, open := <-h.table.changes:
			if open {
				t.Error("a change is left")
			}
		default:
			close(h.table.changes) // as the real one is with its context
		}
		<-ended
	}
}

func config(t *testing.T, mode string) *ipam.Config {
	t.Helper()
	return configOf(t, "web", mode, "10.91.0.0/16")
}

func configOf(t *testing.T, pool, mode, subnet string) *ipam.Config {
	t.Helper()
	c, err := ipam.Parse([]byte(`{"type": "allocnet-ipam", "pool": "` + pool + `", "mode": "` + mode + `", "ranges": [{"subnet": "` + subnet + `"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// block is one of a node.
func block(prefix, id, address string, index uint64) peers.Remote {
	return peers.Remote{
		Block: netip.MustParsePrefix(prefix), Host: ipam.Host{Instance: "i-" + id, NodeID: id}, Endpoint: ipam.Endpoint{Address: netip.MustParseAddr(address)}, Index: index,
	}
}
