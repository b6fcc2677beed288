// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package roster

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/ipam/storetest"
	"github.com/allocnet/allocnet/isolation"
)

// testHost is a host whose roster has a store in memory.
type testHost struct {
	*Roster
	// mu is for what a test changes and looks at while the roster runs.
	mu      sync.Mutex
	own     []isolation.Member
	learned []isolation.Remote
	// learning tells of each Learn.
	learning chan struct{}
	failure  error
}

func newTestHost(t *testing.T, store ipam.Store, number, block int, link string) *testHost {
	t.Helper()
	c, err := ipam.Parse([]byte(`{"pool": "p", "mode": "auto", "ranges": [{"subnet": "10.0.0.0/16"}], "blockSize": {"4": 26}}`))
	if err != nil {
		t.Fatal(err)
	}
	h := &testHost{learning: make(chan struct{}, 1)}
	host := ipam.Host{Instance: strings.Repeat(fmt.Sprint(number), 32), NodeName: fmt.Sprintf("h%d", number)}
	b := c.Slots(ipam.IPv4).At(uint64(block))
	if _, err := store.Create(t.Context(), ipam.BlockPath("p", b), ipam.Encode(ipam.BlockContent{Pool: "p", Block: b, Host: host})); err != nil {
		t.Fatal(err)
	}
	h.Roster = New(Options{
		Config: c, Open: func() (ipam.Store, ipam.Host, error) { return store, host, h.failure },
		Own: func(context.Context) ([]isolation.Member, error) {
			h.mu.Lock()
			defer h.mu.Unlock()
			return h.own, nil
		},
		Routes: func() (map[netip.Prefix]string, error) {
			return map[netip.Prefix]string{netip.MustParsePrefix("10.0.1.0/26"): link}, nil
		},
		Known: func() ([]isolation.Remote, error) { return h.known(), nil },
		Learn: func(_ context.Context, all []isolation.Remote, _ time.Time) error {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.learned = all
			select {
			case h.learning <- struct{}{}:
			default:
			}
			return nil
		},
	})
	return h
}

// known returns what the host has learned.
func (h *testHost) known() []isolation.Remote {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.learned
}

func attachment(job, address string) isolation.Member {
	return isolation.Member{Network: "n", Level: isolation.Strict, Namespace: "default", Job: job, Addresses: []netip.Addr{netip.MustParseAddr(address)}, Link: "br0"}
}

// TestRun: a new attachment is known to a host that waits for it within two seconds, with the interface of the route to its block; and one that ends is
// not known as soon.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &storetest.Fake{}
		one, two := newTestHost(t, store, 1, 4, "vx"), newTestHost(t, store, 2, 5, "vx")
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{}, 2)
		for _, h := range []*testHost{one, two} {
			go func() { h.Run(ctx); done <- struct{}{} }()
		}
		for round, own := range [][]isolation.Member{
			{attachment("web", "10.0.1.5"), {Network: "n", Addresses: []netip.Addr{netip.MustParseAddr("10.0.1.6")}}, attachment("x", "10.9.0.1")}, // one has no link, one is in no block
			{}, {attachment("db", "10.0.1.7")},
		} {
			time.Sleep(time.Minute)
			synctest.Wait()
			one.mu.Lock()
			one.own = own
			one.mu.Unlock()
			begun := time.Now()
			one.Kick()
			isKnown := func() bool {
				known := two.known()
				return len(own) == 0 && len(known) == 0 || len(own) > 0 && len(known) == 1 && known[0].Job == own[0].Job
			}
			for !isKnown() && time.Since(begun) < time.Hour {
				time.Sleep(10 * time.Millisecond)
				synctest.Wait()
			}
			if took := time.Since(begun); took > 2*time.Second {
				t.Errorf("round %d: it took %s: %+v", round, took, two.known())
			}
			if known := two.known(); len(known) > 0 && (known[0].Via != "vx" || known[0].Host != "h1" || known[0].Level != isolation.Strict) {
				t.Errorf("learned is %+v", known[0])
			}
		}
		stop()
		<-done
		<-done
		one.Withdraw(t.Context())
		if err := two.round(t.Context()); err != nil || len(two.learned) > 0 {
			t.Errorf("after one has withdrawn known is %+v, %v", two.learned, err)
		}
	})
}

// TestNetworkNames: what a host says of a network that cannot be one is not believed. Listings of nftables have the name: an operator loads them again.
func TestNetworkNames(t *testing.T) {
	for network, want := range map[string]int{"n": 1, "": 0, "x\"\n}\ntable inet evil {": 0, "a b": 0} {
		synctest.Test(t, func(t *testing.T) {
			store := &storetest.Fake{}
			one, two := newTestHost(t, store, 1, 4, ""), newTestHost(t, store, 2, 5, "")
			one.own = []isolation.Member{attachment("web", "10.0.1.5")}
			one.own[0].Network = network
			for _, h := range []*testHost{one, one, two} {
				h.Kick()
				if err := h.round(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if len(two.learned) != want {
				t.Errorf("network %q: learned is %+v", network, two.learned)
			}
		})
	}
}

// TestStoreSilent: while the store does not answer what was learned stays, also by another process, until its jobs count as unknown.
func TestStoreSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &storetest.Fake{}
		one, two := newTestHost(t, store, 1, 4, "vx"), newTestHost(t, store, 2, 5, "vx")
		one.own = []isolation.Member{attachment("web", "10.0.1.5")}
		one.o.Now = func() time.Time { return time.Now().Add(1000 * time.Hour) } // whose clock is wrong, is believed no longer
		for _, h := range []*testHost{one, one, two} {
			h.Kick()
			if err := h.round(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		silent := errors.New("no answer")
		again := newTestHost(t, &storetest.Fake{}, 2, 5, "vx")
		again.learned = two.learned
		for _, h := range []*testHost{two, again} {
			h.failure = silent
			for range 2 {
				if err := h.round(t.Context()); !errors.Is(err, silent) || len(h.learned) != 1 || h.learned[0].Job != "web" || h.learned[0].Via != "vx" {
					t.Errorf("learned is %+v, %v", h.learned, err)
				}
			}
		}
		time.Sleep(isolation.MostUnconfirmed + time.Minute)
		for _, h := range []*testHost{two, again} {
			if err := h.round(t.Context()); !errors.Is(err, silent) || len(h.learned) != 1 || h.learned[0].Job+h.learned[0].Namespace != "" || h.learned[0].Network != "n" {
				t.Errorf("long after that learned is %+v, %v", h.learned, err)
			}
		}
	})
}

// TestAbandoned: an entry of a piece that no host has is removed an hour after that was found, and one of a range that this host does not know is not.
func TestAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &storetest.Fake{}
		h := newTestHost(t, store, 1, 4, "")
		paths := map[string]bool{}
		for text, stays := range map[string]bool{"10.0.9.0/26": false, "192.0.2.0/26": true, "10.0.1.0/27": true} {
			piece := netip.MustParsePrefix(text)
			paths[ipam.MembersPath("p", piece)] = stays
			if _, err := store.Create(t.Context(), ipam.MembersPath("p", piece), ipam.Encode(ipam.MembersContent{Pool: "p", Instance: strings.Repeat("f", 32), Piece: piece})); err != nil {
				t.Fatal(err)
			}
		}
		for _, age := range []time.Duration{0, abandoned - time.Minute, 2 * time.Minute} {
			time.Sleep(age)
			h.Kick()
			if err := h.round(t.Context()); err != nil {
				t.Fatal(err)
			}
			for path, stays := range paths {
				_, err := store.Get(t.Context(), path)
				if isThere := err == nil; isThere != (stays || age != 2*time.Minute) {
					t.Errorf("after %s %s is there: %t", age, path, isThere)
				}
			}
		}
	})
}

// TestLongNames: an entry has room for all addresses of a piece, whatever their jobs are called; such a job is unknown to others.
func TestLongNames(t *testing.T) {
	synctest.Test(t, testLongNames)
}

func testLongNames(t *testing.T) {
	store := &storetest.Fake{}
	h := newTestHost(t, store, 1, 4, "")
	for i := range 64 {
		m := attachment(strings.Repeat("<", 128), fmt.Sprintf("10.0.1.%d", i))
		m.Group, m.Namespace, m.Index = fmt.Sprint(i), strings.Repeat("é", 60), new(uint32)
		*m.Index = 1<<31 - 1
		h.own = append(h.own, m)
	}
	if err := h.round(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range h.own {
		h.own[i].Job = strings.Repeat("j", 128)
	}
	for range 2 {
		h.Kick()
		if err := h.round(t.Context()); err != nil {
			t.Fatal(err)
		}
		got, err := store.Get(t.Context(), ipam.MembersPath("p", netip.MustParsePrefix("10.0.1.0/26")))
		if err != nil || len(got.Content) > ipam.MaxContent*3/4 || len(got.Content) < 10_000 {
			t.Fatalf("the entry has %d bytes, %v", len(got.Content), err)
		}
	}
}

// TestIndexes: other hosts learn the numbers of allocations, of those that are not known none, and of jobs that are unknown to them none either.
func TestIndexes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &storetest.Fake{}
		one, two := newTestHost(t, store, 1, 4, ""), newTestHost(t, store, 2, 5, "")
		for i := range uint32(2) {
			m := attachment("web", fmt.Sprintf("10.0.1.%d", i+5))
			m.Index = &i
			one.own = append(one.own, m)
		}
		long := attachment(strings.Repeat("j", mostText+1), "10.0.1.9")
		long.Index = one.own[1].Index
		one.own = append(one.own, attachment("web", "10.0.1.7"), attachment("web", "10.0.1.8"), long)
		if err := errors.Join(one.round(t.Context()), two.round(t.Context())); err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, r := range two.learned {
			index := "-"
			if r.Index != nil {
				index = fmt.Sprint(*r.Index)
			}
			got += fmt.Sprintf("%s %s %v; ", r.Job, index, r.Addresses)
		}
		if want := "web 0 [10.0.1.5]; web 1 [10.0.1.6]; web - [10.0.1.7 10.0.1.8];  - [10.0.1.9]; "; got != want {
			t.Errorf("learned is %s, want %s", got, want)
		}
	})
}
