// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package reserved

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/ipam/storetest"
)

// fakeLeases are the leases of a host in memory.
type fakeLeases struct {
	mu     sync.Mutex // guards owners
	owners map[netip.Addr]ipam.Owner
}

func (l *fakeLeases) Owner(_ context.Context, address netip.Addr) (ipam.Owner, bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	owner, ok := l.owners[address]
	return owner, ok, nil
}

func (l *fakeLeases) Add(_ context.Context, address netip.Addr, owner ipam.Owner) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if present, ok := l.owners[address]; ok && present != owner {
		return fmt.Errorf("%s has the lease of %s", present.ContainerID, address)
	}
	l.owners[address] = owner
	return nil
}

func (l *fakeLeases) Remove(_ context.Context, address netip.Addr, owner ipam.Owner) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.owners[address] == owner {
		delete(l.owners, address)
	}
	return nil
}

type fakeGuard struct {
	isNew bool
	// foreign is the boot of a copy that was refused.
	foreign string
	err     error
	// agreed is how often the configuration was compared.
	agreed int
	// answers: hosts of this host's node say that they live.
	answers bool
}

func (g *fakeGuard) Identify(context.Context, ipam.Store, ipam.Host) (bool, error) {
	return g.isNew, g.err
}

func (g *fakeGuard) Wrote(_ context.Context, _ ipam.Store, _, by ipam.Host) (bool, error) {
	return g.foreign == "" || by.Boot != g.foreign, nil
}

func (*fakeGuard) Silent(context.Context, ipam.Store, ipam.Host, string) (bool, error) {
	return true, nil
}

func (g *fakeGuard) Answers(context.Context, ipam.Store, ipam.Host, string) (bool, error) {
	return g.answers, nil
}

func (g *fakeGuard) Agree(context.Context, ipam.Store) error {
	g.agreed++
	return nil
}

// fakeHolder says what a test sets.
type fakeHolder struct {
	ended map[string]time.Time
	gone  map[string]bool
	err   error
}

func (h *fakeHolder) Ended(_ context.Context, _, allocation string) (time.Time, error) {
	return h.ended[allocation], h.err
}

func (h *fakeHolder) Gone(_ context.Context, node string) (bool, error) { return h.gone[node], h.err }

// fakeCluster are hosts with a store, a Nomad and a time.
type fakeCluster struct {
	*testing.T
	store  *storetest.Fake
	holder *fakeHolder
	guard  *fakeGuard
	time   time.Time
	config *ipam.Config
}

func newCluster(t *testing.T, options ...string) *fakeCluster {
	t.Helper()
	config, err := ipam.Parse([]byte(`{"type": "allocnet-ipam", "pool": "test", "sticky": true,
		"ranges": [{"subnet": "10.0.0.0/24"}, {"subnet": "fd00::/112"}],
		"reserved": ["10.0.0.16/30", "fd00::10/126"]` + strings.Join(options, "") + `}`))
	if err != nil {
		t.Fatal(err)
	}
	return &fakeCluster{
		t, &storetest.Fake{}, &fakeHolder{map[string]time.Time{}, map[string]bool{}, nil}, &fakeGuard{},
		time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), config,
	}
}

// fakeHost is a host of the cluster.
type fakeHost struct {
	*fakeCluster
	*Addresses
	leases *fakeLeases
	links  fakeLinks
	host   ipam.Host
	// down is why the store cannot be opened.
	down error
	// before is called before the host's next write to the store.
	before func()
}

// raced is the store of a host that another one overtakes.
type raced struct {
	*storetest.Fake
	*fakeHost
}

func (r raced) overtake() {
	if before := r.before; before != nil {
		r.before = nil
		before()
	}
}

func (r raced) Create(ctx context.Context, path string, content []byte) (uint64, error) {
	r.overtake()
	return r.Fake.Create(ctx, path, content)
}

func (r raced) Update(ctx context.Context, path string, content []byte, index uint64) (uint64, error) {
	r.overtake()
	return r.Fake.Update(ctx, path, content, index)
}

func (c *fakeCluster) newHost(number int) *fakeHost {
	c.Helper()
	h := &fakeHost{
		fakeCluster: c, leases: &fakeLeases{owners: map[netip.Addr]ipam.Owner{}}, links: fakeLinks{},
		host: ipam.Host{Instance: fmt.Sprintf("%032x", number), NodeID: fmt.Sprint("node", number), NodeName: fmt.Sprint("name", number)},
	}
	config := *c.config
	config.StateDir = c.TempDir()
	var lock sync.Mutex
	h.Addresses = New(Options{
		Config: &config, Leases: h.leases, Guard: c.guard, Links: h.links, Holder: c.holder, Now: func() time.Time { return c.time },
		Open:      func() (ipam.Store, ipam.Host, error) { return raced{c.store, h}, h.host, h.down },
		LockStore: func(context.Context) (func(), error) { lock.Lock(); return lock.Unlock, nil },
	})
	h.sleep = func(context.Context, time.Duration) error { return errors.New("it waits") }
	return h
}

func (h *fakeHost) take(request ipam.Request, families ...ipam.Family) (string, error) {
	h.Helper()
	found, err := h.Take(h.Context(), request, families)
	return strings.Trim(fmt.Sprint(found), "[]"), err
}

// mustTake requires addresses; "" is any.
func (h *fakeHost) mustTake(request ipam.Request, want string, families ...ipam.Family) string {
	h.Helper()
	got, err := h.take(request, families...)
	if err != nil || want != "" && got != want {
		h.Fatalf("%s gets %q, error %v; want %q", request.Owner.ContainerID, got, err, want)
	}
	return got
}

// mustFail requires an error of a kind whose text has the words.
func (h *fakeHost) mustFail(request ipam.Request, kind error, words string, families ...ipam.Family) {
	h.Helper()
	got, err := h.take(request, families...)
	if !errors.Is(err, kind) || !strings.Contains(err.Error(), words) {
		h.Fatalf("%s gets %q, error %v; want one with %q", request.Owner.ContainerID, got, err, words)
	}
}

func (h *fakeHost) mustFree(container string) {
	h.Helper()
	if err := h.Free(h.Context(), attachment(container)); err != nil {
		h.Fatal(err)
	}
}

func (c *fakeCluster) pass(d time.Duration) { c.time = c.time.Add(d) }

func attachment(container string) ipam.Owner {
	return ipam.Owner{ContainerID: container, Interface: "eth0"}
}

// allocation requests addresses for an allocation of a job.
func allocation(id, job string, addresses ...string) ipam.Request {
	r := ipam.Request{Owner: attachment(id), Job: ipam.Job{Namespace: "default", Job: job, Group: "g", Allocation: id}}
	for _, address := range addresses {
		r.Addresses = append(r.Addresses, netip.MustParseAddr(address))
	}
	return r
}

func sticky(id, job, key string) ipam.Request {
	r := allocation(id, job)
	r.Job.Key = key
	return r
}

// list returns the addresses that are held or kept, or were, sorted.
func (a *Addresses) list(ctx context.Context) ([]ipam.AddressContent, error) {
	s, err := a.open(ctx)
	if err != nil {
		return nil, err
	}
	defer s.close()
	if err := s.readTrusted(ctx); err != nil {
		return nil, err
	}
	var all []ipam.AddressContent
	for _, address := range sorted(s.view.entries) {
		if e := s.view.entries[address]; e.index != 0 {
			e.content.Address = address
			all = append(all, e.content)
		}
	}
	return all, nil
}

// dump returns the entries as text.
func (c *fakeCluster) dump() string {
	c.Helper()
	h := c.newHost(999)
	all, err := h.list(c.Context())
	if err != nil {
		c.Fatal(err)
	}
	var lines []string
	for _, a := range all {
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s %s %s/%s %s", a.Address, a.State, a.Job.Job, a.Job.Key, a.Owner.ContainerID)))
	}
	return strings.Join(lines, "\n")
}

func (h *fakeHost) mustHaveRecords(want int) {
	h.Helper()
	if found, err := h.records.load(h.Context()); err != nil || len(found) != want {
		h.Fatalf("%d records are left, error %v; want %d", len(found), err, want)
	}
}

// TestRequested: a requested address is held until it is freed, then another job may have it.
func TestRequested(t *testing.T) {
	c := newCluster(t)
	one, two := c.newHost(1), c.newHost(2)
	one.mustTake(allocation("a1", "web", "10.0.0.17", "fd00::11"), "10.0.0.17 fd00::11")
	one.down = errors.New("scripted")
	one.mustTake(allocation("a1", "web", "10.0.0.17", "fd00::11"), "10.0.0.17 fd00::11") // without the store
	one.down = nil
	two.mustFail(allocation("b1", "db", "10.0.0.17"), ipam.ErrInvalid, `job "web" has it`)
	two.mustFail(allocation("a2", "web", "10.0.0.18", "10.0.0.17"), ipam.ErrExhausted, "neither complete nor failed")
	two.mustHaveRecords(0)
	one.mustFree("a1")
	one.mustHaveRecords(0)
	two.mustFail(allocation("b1", "db", "10.0.0.17"), ipam.ErrExhausted, "a moment ago")
	one.mustTake(allocation("a3", "web", "10.0.0.17"), "10.0.0.17") // it knows that its interface is gone
	one.mustFree("a3")
	c.pass(quiet)
	two.mustTake(allocation("b1", "db", "10.0.0.17"), "10.0.0.17")
	if got := slices.Collect(maps.Keys(two.leases.owners)); len(got) != 1 || len(one.leases.owners) != 0 {
		t.Errorf("leases %v and %v", got, one.leases.owners)
	}
}

// TestSticky: a key keeps its address on all hosts.
func TestSticky(t *testing.T) {
	c := newCluster(t)
	one, two := c.newHost(1), c.newHost(2)
	first := one.mustTake(sticky("a1", "web", "0"), "", 4, 6)
	other := one.mustTake(sticky("a2", "web", "1"), "", 4, 6)
	if first == other {
		t.Fatalf("both have %s", first)
	}
	two.mustFail(sticky("a3", "web", "0"), ipam.ErrExhausted, "neither complete nor failed", 4, 6)
	one.mustFree("a1")
	c.pass(time.Hour)
	two.mustTake(sticky("a3", "web", "0"), first, 4, 6)
	c.newHost(3).mustFail(allocation("b1", "db", strings.Fields(first)[0]), ipam.ErrInvalid, `it is kept for job "web"`)
}
