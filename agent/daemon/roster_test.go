// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package daemon

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/ipam/storetest"
	"github.com/allocnet/allocnet/isolation"
	"github.com/allocnet/allocnet/state"
)

// fakeSharer is an engine that shares what it is told to.
type fakeSharer struct {
	mu      sync.Mutex // guards all below
	shares  bool
	mistake error
	version string
	// looked counts looks at whether records have changed.
	looked int
	// read counts readings of the records, and learned are the pools that something is known of.
	read    int
	learned map[string]time.Time
}

func (f *fakeSharer) Shares() (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.shares, f.mistake
}

func (f *fakeSharer) Members(context.Context) ([]isolation.Member, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.read++
	return nil, nil
}

func (f *fakeSharer) Version() (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.looked++
	return f.version, nil
}

func (f *fakeSharer) Learn(_ context.Context, pool string, all []isolation.Remote, read time.Time) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.learned[pool] = read; all == nil && read.IsZero() {
		delete(f.learned, pool)
	}
	return nil
}

func (f *fakeSharer) Remembered(string) ([]isolation.Remote, error) { return nil, nil }

func (f *fakeSharer) Learned() (map[string]time.Time, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.learned), nil
}

// TestRosters: while isolation is about attachments each pool that spans hosts has a roster, which sees changes of the records at once; what is known of other
// pools is forgotten when it is certain that they are not used. With a mistake in a file, what was shared still is.
func TestRosters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := &fakeSharer{learned: map[string]time.Time{"gone": time.Now()}}
		var mu sync.Mutex // guards the next two
		pools, complete := []*ipam.Config{parsePool(t, "a"), parsePool(t, "b")}, false
		r := &rosters{
			engine: engine, log: hclog.NewNullLogger(), running: map[string]*running{},
			pools: func() ([]*ipam.Config, bool) { mu.Lock(); defer mu.Unlock(); return pools, complete },
			open: func(*ipam.Config) func() (ipam.Store, ipam.Host, error) {
				store := &storetest.Fake{}
				return func() (ipam.Store, ipam.Host, error) {
					return store, ipam.Host{Instance: strings.Repeat("a", 32)}, nil
				}
			},
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { r.run(ctx); close(done) }()
		require := func(when string, wantRunning, wantLearned string) {
			t.Helper()
			time.Sleep(time.Minute)
			synctest.Wait()
			r.mu.Lock()
			running := strings.Join(slices.Sorted(maps.Keys(r.running)), " ")
			r.mu.Unlock()
			learned, _ := engine.Learned()
			if names := strings.Join(slices.Sorted(maps.Keys(learned)), " "); running != wantRunning || names != wantLearned {
				t.Errorf("%s: rosters of %q run, and known is %q, want %q and %q", when, running, names, wantRunning, wantLearned)
			}
		}
		set := func(do func()) {
			mu.Lock()
			defer mu.Unlock()
			engine.mu.Lock()
			defer engine.mu.Unlock()
			do()
		}
		require("nothing is isolated", "", "")
		set(func() {
			if engine.looked > 0 {
				t.Errorf("without a roster the records were looked at %d times", engine.looked)
			}
		})
		set(func() { engine.learned["gone"] = time.Now(); engine.shares = true })
		require("there may be more pools", "a b", "a b gone")
		set(func() { complete = true })
		require("these are all", "a b", "a b")
		set(func() { engine.mistake, pools = errors.New("a mistake"), pools[:1] })
		require("a mistake in a file", "a", "a")
		before := 0
		set(func() { before, engine.version = engine.read, "another" })
		time.Sleep(2 * recordsPause)
		synctest.Wait()
		set(func() {
			if engine.read == before {
				t.Error("a change of the records is not seen")
			}
			engine.shares, engine.mistake = false, nil
		})
		require("nothing is isolated any more", "", "")
		stop()
		<-done
	})
}

// TestRostersWithdrawn: where nothing is isolated any more since the agent was started again, other hosts do not believe what the one before it has told.
func TestRostersWithdrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, host, c := &storetest.Fake{}, ipam.Host{Instance: strings.Repeat("a", 32)}, parsePool(t, "p")
		a := netip.MustParseAddr("10.0.0.5")
		block, _ := c.BlockOf(a)
		piece, _ := c.PieceOf(a)
		told := ipam.MembersContent{
			Pool: "p", Instance: host.Instance, Piece: piece, Written: time.Now(),
			Groups: []ipam.MemberGroup{{Network: "n", Level: "strict", Job: "web", Addresses: []netip.Addr{a}}},
		}
		_, err := store.Create(t.Context(), ipam.BlockPath("p", block), ipam.Encode(ipam.BlockContent{Pool: "p", Block: block, Host: host}))
		if err == nil {
			_, err = store.Create(t.Context(), ipam.MembersPath("p", piece), ipam.Encode(told))
		}
		if err != nil {
			t.Fatal(err)
		}
		r := &rosters{
			engine: &fakeSharer{learned: map[string]time.Time{"p": time.Now()}}, log: hclog.NewNullLogger(), running: map[string]*running{},
			pools: func() ([]*ipam.Config, bool) { return []*ipam.Config{c}, true },
			open: func(*ipam.Config) func() (ipam.Store, ipam.Host, error) {
				return func() (ipam.Store, ipam.Host, error) { return store, host, nil }
			},
		}
		r.update(t.Context())
		if _, err := store.Get(t.Context(), ipam.MembersPath("p", piece)); !errors.Is(err, ipam.ErrNotFound) {
			t.Errorf("the hosts of the pool still read it: %v", err)
		}
	})
}

// TestNumber: each attachment has the number of its allocation, as far as Nomad has told it.
func TestNumber(t *testing.T) {
	own := []isolation.Member{{ID: "a"}, {ID: state.ContainerID("a", "net1")}, {ID: "b"}}
	(&rosters{}).number(own)
	(&rosters{indexes: func() map[string]int { return map[string]int{"a": 7} }}).number(own)
	if own[0].Index == nil || *own[0].Index != 7 || own[1].Index == nil || *own[1].Index != 7 || own[2].Index != nil {
		t.Errorf("%+v, want 7 for both of a", own)
	}
}

func parsePool(t *testing.T, name string) *ipam.Config {
	t.Helper()
	c, err := ipam.Parse([]byte(`{"pool": "` + name + `", "mode": "auto", "ranges": [{"subnet": "10.0.0.0/16"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// numberedSharer has one attachment.
type numberedSharer struct{ fakeSharer }

func (*numberedSharer) Members(context.Context) ([]isolation.Member, error) {
	return []isolation.Member{{ID: "a1"}}, nil
}

// TestNumbers: rosters wait for Nomad to say which numbers allocations have, but not for ever, and tell of one that it says later at once.
func TestNumbers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := &numberedSharer{fakeSharer{learned: map[string]time.Time{}, shares: true}}
		var mu sync.Mutex // guards numbers
		var numbers map[string]int
		r := &rosters{
			engine: engine, log: hclog.NewNullLogger(), running: map[string]*running{},
			pools:      func() ([]*ipam.Config, bool) { return []*ipam.Config{parsePool(t, "a")}, true },
			indexes:    func() map[string]int { mu.Lock(); defer mu.Unlock(); return numbers },
			renumbered: func() uint64 { mu.Lock(); defer mu.Unlock(); return uint64(len(numbers)) },
			open: func(*ipam.Config) func() (ipam.Store, ipam.Host, error) {
				return func() (ipam.Store, ipam.Host, error) { return &storetest.Fake{}, ipam.Host{}, nil }
			},
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { r.run(ctx); close(done) }()
		time.Sleep(numbersPause - time.Second)
		synctest.Wait()
		if !r.isIdle() {
			t.Error("other hosts are told of attachments without the numbers that they were told before")
		}
		time.Sleep(rosterPause)
		synctest.Wait()
		if r.isIdle() {
			t.Error("other hosts are not told of attachments while Nomad does not answer")
		}
		if own, err := r.members(ctx); err != nil || len(own) != 1 || own[0].Index != nil {
			t.Errorf("%v, %v, want one without a number", own, err)
		}
		mu.Lock()
		numbers = map[string]int{"a1": 3}
		mu.Unlock()
		if own, err := r.members(ctx); err != nil || len(own) != 1 || own[0].Index == nil || *own[0].Index != 3 {
			t.Errorf("%v, %v, want the number 3", own, err)
		}
		stop()
		<-done
	})
}
