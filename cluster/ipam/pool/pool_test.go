// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package pool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/ipam/storetest"
	"github.com/allocnet/allocnet/internal/errdefs"
)

// one is a pool of one block, 10.0.0.2 to 10.0.0.6.
const one = `"ranges": [{"subnet": "10.0.0.0/29"}]`

// four is a pool of four blocks, of which the second and the third have 4 addresses.
const four = `"blockSize": {"4": 30}, "ranges": [{"subnet": "10.0.0.0/28"}]`

// TestSteadyState: once a host has a block, attachments come and go without the store.
func TestSteadyState(t *testing.T) {
	store := newStore()
	h := newHost(t, store, 0, one)
	h.requireAdd("a", "10.0.0.2")
	if writes := store.writes.Load(); writes != 3 {
		t.Errorf("%d writes for the first attachment, want 3: the host, the pool and the block", writes)
	}
	store.fail(ipam.ErrUnavailable)
	h.restart()
	h.requireAdd("a", "10.0.0.2")
	h.requireAdd("b", "10.0.0.3")
	requests := store.reads.Load() + store.writes.Load()
	for range 10 {
		address := h.add("c")
		h.requireAdd("c", address)
		h.requireNo(h.Check(t.Context(), owner("c"), addrs(address)))
		h.del("c")
		h.clock = h.clock.Add(time.Minute)
	}
	h.del("nothing")
	if now := store.reads.Load() + store.writes.Load(); now != requests {
		t.Errorf("%d requests", now-requests)
	}
}

// TestAtOnce: attachments that start at once on a host without a block claim one.
func TestAtOnce(t *testing.T) { synctest.Test(t, testAtOnce) }

// testAtOnce runs where time passes only while all wait: how long the machine takes is not limited.
func testAtOnce(t *testing.T) {
	store := newStore()
	h := newHost(t, store, 0, `"blockSize": {"4": 27}, "ranges": [{"subnet": "10.0.0.0/24"}]`)
	requireDistinct(t, 20, func(i int) string {
		process := New(h.options)
		return (&host{TB: t, Pool: process}).add(fmt.Sprint("c", i))
	})
	if writes := store.writes.Load(); writes != 3 {
		t.Errorf("%d writes, want 3: the host, the pool and one block", writes)
	}
}

// TestExactFit: hosts that start at once get all addresses of a pool that is just large enough.
func TestExactFit(t *testing.T) { synctest.Test(t, testExactFit) }

func testExactFit(t *testing.T) {
	store := newStore()
	var hosts []*host
	for i := range 10 {
		hosts = append(hosts, newHost(t, store, i, `"cooldown": "0s", "blockSize": {"4": 30}, "ranges": [{"subnet": "10.0.0.0/24", "rangeStart": "10.0.0.4", "rangeEnd": "10.0.0.203"}]`))
	}
	requireDistinct(t, 200, func(i int) string {
		h := hosts[i%len(hosts)]
		return (&host{TB: t, Pool: New(h.options)}).add(fmt.Sprint("c", i))
	})
	if writes := store.writes.Load(); writes > 10+1+2*50 {
		t.Errorf("%d writes", writes)
	}
}

// requireDistinct requires that calls at once give different addresses.
func requireDistinct(t *testing.T, count int, add func(i int) string) {
	t.Helper()
	got := make([]string, count)
	var wait sync.WaitGroup
	for i := range got {
		wait.Go(func() { got[i] = add(i) })
	}
	wait.Wait()
	slices.Sort(got)
	for i, a := range got {
		if _, err := netip.ParseAddr(a); err != nil {
			t.Errorf("no address: %s", a)
		}
		if i > 0 && got[i-1] == a {
			t.Errorf("%s was given out twice", a)
		}
	}
}

// TestServersDown: addresses of held blocks are given out; without room the error says that the
// store was needed, and DEL works all the time.
func TestServersDown(t *testing.T) {
	store := newStore()
	h := newHost(t, store, 0, one)
	h.requireAdd("a", "10.0.0.2")
	h.requireNo(h.Status(t.Context()))
	store.fail(fmt.Errorf("%w: no cluster leader", ipam.ErrUnavailable))
	for i := range 4 {
		h.requireAdd(fmt.Sprint("b", i), fmt.Sprint("10.0.0.", i+3))
	}
	_, err := h.Add(t.Context(), ipam.Request{Owner: owner("c")})
	if !errors.Is(err, ipam.ErrExhausted) || !errors.Is(err, ipam.ErrUnavailable) || !strings.Contains(err.Error(), "no cluster leader") {
		t.Errorf("the error is %v", err)
	}
	if err := h.Status(t.Context()); !errors.Is(err, ipam.ErrUnavailable) {
		t.Errorf("the status is %v", err)
	}
	h.del("a")
	h.clock = h.clock.Add(time.Minute)
	h.requireNo(h.Status(t.Context()))
	h.requireAdd("c", "10.0.0.2")
}

// TestStatusOfAFullPool: what another host has claimed cannot be given out here.
func TestStatusOfAFullPool(t *testing.T) {
	store := newStore()
	other, h := newHost(t, store, 0, one), newHost(t, store, 1, one)
	h.requireNo(h.Status(t.Context()))
	if listing, err := store.List(t.Context(), "", 0); err != nil || len(listing.Entries) > 0 {
		t.Errorf("STATUS made %v, %v", listing.Entries, err)
	}
	other.requireAdd("a", "10.0.0.2")
	if err := h.Status(t.Context()); !errors.Is(err, ipam.ErrExhausted) || !strings.Contains(err.Error(), "none of 1 blocks of IPv4") {
		t.Errorf("the status is %v", err)
	}
	other.requireNo(other.Status(t.Context()))
}

// TestSilentServers: if the store does not answer, an attachment fails within 5 s.
func TestSilentServers(t *testing.T) {
	store := newStore()
	store.hangs.Store(true)
	h := newHost(t, store, 0, one)
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		_, err := h.Add(t.Context(), ipam.Request{Owner: owner("a")})
		if !errors.Is(err, ipam.ErrExhausted) || !errors.Is(err, ipam.ErrUnavailable) || !strings.Contains(err.Error(), "no answer in 4.5s") {
			t.Errorf("the error is %v", err)
		}
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("it took %s", took)
		}
	})
}

// TestSilentServersUnverified: an attachment fails within 5 s, too, if the blocks of the host are to
// be verified first.
func TestSilentServersUnverified(t *testing.T) {
	store := newStore()
	h := newHost(t, store, 0, one)
	for i := range 5 {
		h.requireAdd(fmt.Sprint("a", i), fmt.Sprint("10.0.0.", i+2))
	}
	h.verifiedBefore(2 * time.Hour)
	store.hangs.Store(true)
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		_, err := h.Add(t.Context(), ipam.Request{Owner: owner("b")})
		if took := time.Since(start); took < time.Second || took > 5*time.Second || !errors.Is(err, ipam.ErrExhausted) || !errors.Is(err, ipam.ErrUnavailable) {
			t.Errorf("%v, after %s", err, took)
		}
	})
}

// verifiedBefore lets the host have verified its blocks a while ago.
func (h *host) verifiedBefore(age time.Duration) {
	h.Helper()
	path := filepath.Join(h.options.Config.StateDir, "ipam/pools/p/blocks.json")
	data, err := os.ReadFile(path)
	h.requireNo(err)
	var all map[string]any
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber() // indexes
	h.requireNo(decoder.Decode(&all))
	verified := all["verified"].(map[string]any)
	uptime, err := verified["uptime"].(json.Number).Int64()
	h.requireNo(err)
	verified["uptime"] = uptime - int64(age)
	data, err = json.Marshal(all)
	h.requireNo(err)
	h.requireNo(os.WriteFile(path, data, 0o600))
}

// TestKinds: the kind of an error is that of the reason for which there is no block.
func TestKinds(t *testing.T) {
	store := newStore()
	newHost(t, store, 0, one).requireAdd("a", "10.0.0.2")
	changed := newHost(t, store, 1, `"ranges": [{"subnet": "10.0.0.0/29", "gateway": "10.0.0.6"}]`)
	if _, err := changed.Add(t.Context(), ipam.Request{Owner: owner("b")}); errdefs.Of(err) != errdefs.Refused {
		t.Errorf("another configuration: %v: %v", errdefs.Of(err), err)
	}
	store.fail(ipam.ErrUnavailable)
	if _, err := newHost(t, store, 2, one).Add(t.Context(), ipam.Request{Owner: owner("b")}); errdefs.Of(err) != errdefs.Unavailable {
		t.Errorf("no store: %v: %v", errdefs.Of(err), err)
	}
}

// TestRefused: the error of a store that refuses access is that of the attachment.
func TestRefused(t *testing.T) {
	store := newStore()
	store.fail(fmt.Errorf("%w: 403", ipam.ErrRefused))
	h := newHost(t, store, 0, one)
	if _, err := h.Add(t.Context(), ipam.Request{Owner: owner("a")}); !errors.Is(err, ipam.ErrExhausted) || !errors.Is(err, ipam.ErrRefused) {
		t.Errorf("the error is %v", err)
	}
}

// TestMismatch: a host whose configuration differs gets no block, and one that has more ranges
// does.
func TestMismatch(t *testing.T) {
	store := newStore()
	newHost(t, store, 0, one).requireAdd("a", "10.0.0.2")
	h := newHost(t, store, 1, `"ranges": [{"subnet": "10.0.0.0/29", "gateway": "10.0.0.6"}]`)
	_, err := h.Add(t.Context(), ipam.Request{Owner: owner("b")})
	if !errors.Is(err, ipam.ErrMismatch) || strings.Count(fmt.Sprint(err), `"gateway":"10.0.0.6"`) != 1 || strings.Count(fmt.Sprint(err), `"gateway":"10.0.0.1"`) != 1 {
		t.Errorf("the error is %v", err)
	}
	newHost(t, store, 2, `"blockSize": {"4": 29}, "ranges": [{"subnet": "10.0.0.0/29"}, {"subnet": "10.0.1.0/29"}]`).requireAdd("b", "10.0.1.2")
}

// TestChangedConfiguration: a host whose configuration is changed while it has a block assigns no
// address of it, with or without the store, and leaves it as it is. With the former configuration
// it assigns addresses again.
func TestChangedConfiguration(t *testing.T) {
	store := newStore()
	h := newHost(t, store, 0, `"reserved": ["10.0.0.4/30"], "ranges": [{"subnet": "10.0.0.0/28"}]`)
	h.requireAdd("a", "10.0.0.2")
	original := h.options.Config
	for name, change := range map[string]func(c *ipam.Config){
		"reserved":  func(c *ipam.Config) { c.Reserved = nil },
		"gateway":   func(c *ipam.Config) { c.Ranges[0].Gateway = netip.MustParseAddr("10.0.0.14") },
		"exclude":   func(c *ipam.Config) { c.Ranges[0].Exclude = []netip.Prefix{netip.MustParsePrefix("10.0.0.3/32")} },
		"blockSize": func(c *ipam.Config) { c.BlockSize.IPv4 = 30 },
		"mode":      func(c *ipam.Config) { c.Mode = ipam.ModeRouted },
		"vxlan":     func(c *ipam.Config) { c.Mode, c.VXLAN = ipam.ModeVXLAN, ipam.VXLAN{ID: 7, Port: 4789} },
		"ranges":    func(c *ipam.Config) { c.Ranges = []ipam.Range{{Subnet: netip.MustParsePrefix("10.0.1.0/28")}} },
	} {
		t.Run(name, func(t *testing.T) {
			other := *original
			other.Ranges = slices.Clone(original.Ranges)
			change(&other)
			h.options.Config = &other
			h.restart()
			for _, err := range []error{nil, ipam.ErrUnavailable} {
				store.fail(err)
				h.requireMismatch()
			}
			store.fail(nil)
			if _, err := h.Verify(t.Context(), 0); !errors.Is(err, ipam.ErrMismatch) {
				t.Errorf("verification: %v", err)
			}
			if _, err := h.Maintain(t.Context()); !errors.Is(err, ipam.ErrMismatch) {
				t.Errorf("maintenance: %v", err)
			}
			h.options.Config = original
			h.restart()
			h.requireAdd("a", "10.0.0.2")
			if _, err := netip.ParseAddr(h.add("b")); err != nil {
				t.Error(err)
			}
			h.del("b")
		})
	}
}

// requireMismatch requires that nothing is assigned, and that the errors have both values.
func (h *host) requireMismatch() {
	h.Helper()
	_, added := h.Add(h.Context(), ipam.Request{Owner: owner("b")})
	_, again := h.Add(h.Context(), ipam.Request{Owner: owner("a")})
	checked := h.Check(h.Context(), owner("a"), addrs("10.0.0.2"))
	for verb, err := range map[string]error{"ADD": added, "ADD again": again, "CHECK": checked, "STATUS": h.Status(h.Context())} {
		if !errors.Is(err, ipam.ErrMismatch) || strings.Count(fmt.Sprint(err), `"pool":"p"`) != 2 {
			h.Errorf("%s: %v", verb, err)
		}
	}
}

// TestAppendedRange: ranges are appended on one host after the other. Those that do not have the
// new one go on with their blocks. To remove it again is refused where it has a block.
func TestAppendedRange(t *testing.T) {
	store := newStore()
	const both = `"blockSize": {"4": 29}, "ranges": [{"subnet": "10.0.0.0/29"}, {"subnet": "10.0.1.0/29"}]`
	first := newHost(t, store, 0, one)
	first.requireAdd("a", "10.0.0.2")
	second := newHost(t, store, 1, both)
	second.requireAdd("b", "10.0.1.2")
	if _, err := first.Verify(t.Context(), 0); err != nil {
		t.Error(err)
	}
	first.requireAdd("c", "10.0.0.3")
	first.requireNo(first.Status(t.Context()))
	first.options.Config.Ranges = second.options.Config.Ranges
	first.restart()
	first.requireAdd("d", "10.0.0.4")
	second.options.Config.Ranges = second.options.Config.Ranges[:1]
	second.restart()
	for range 2 {
		if got := second.add("e"); !strings.Contains(got, ipam.ErrMismatch.Error()) {
			t.Errorf("e gets %s", got)
		}
		if _, err := second.Verify(t.Context(), 0); !errors.Is(err, ipam.ErrMismatch) {
			t.Errorf("verification: %v", err)
		}
	}
}

// TestChangedElsewhere: a host finds that the stored configuration was replaced when it verifies.
// Without a stored one, its records say by which configuration its blocks are. Changed as
// docs/ipam.md says, a pool is as a new one.
func TestChangedElsewhere(t *testing.T) {
	store := newStore()
	h := newHost(t, store, 0, one)
	h.requireAdd("a", "10.0.0.2")
	remove := func(path string) {
		t.Helper()
		entry, err := store.Get(t.Context(), path)
		h.requireNo(err)
		h.requireNo(store.Delete(t.Context(), path, entry.Index))
	}
	other := *h.options.Config
	other.Reserved = []netip.Prefix{netip.MustParsePrefix("10.0.0.2/31")}
	original := h.options.Config
	remove(ipam.PoolPath("p"))
	h.options.Config = &other
	h.restart()
	if _, err := h.Verify(t.Context(), 0); !errors.Is(err, ipam.ErrMismatch) {
		t.Errorf("a changed configuration in an empty store: %v", err)
	}
	h.requireMismatch()
	if _, err := store.Create(t.Context(), ipam.PoolPath("p"), ipam.Encode(other.Content())); err != nil {
		t.Fatal(err)
	}
	h.options.Config = original
	h.restart()
	h.requireAdd("b", "10.0.0.3")
	if _, err := h.Verify(t.Context(), 0); !errors.Is(err, ipam.ErrMismatch) {
		t.Errorf("another configuration in the store: %v", err)
	}
	store.fail(ipam.ErrUnavailable)
	h.requireMismatch()
	store.fail(nil)
	h.del("a")
	h.del("b")
	usage, err := h.Usage(t.Context())
	h.requireNo(err)
	remove(ipam.PoolPath("p"))
	remove(ipam.BlockPath("p", usage.Blocks[0].Block))
	h.requireNo(os.RemoveAll(filepath.Join(h.options.Config.StateDir, "ipam/pools/p")))
	h.options.Config = &other
	h.restart()
	h.requireAdd("c", "10.0.0.4")
}

// TestReservedMismatch: what only this host takes for reserved, a block of another may give out.
func TestReservedMismatch(t *testing.T) {
	store := newStore()
	newHost(t, store, 0, `"ranges": [{"subnet": "10.0.0.0/28"}]`).requireAdd("a", "10.0.0.2")
	h := newHost(t, store, 1, `"reserved": ["10.0.0.4/30"], "ranges": [{"subnet": "10.0.0.0/28"}]`)
	address := netip.MustParseAddr("10.0.0.5")
	if _, err := h.Add(t.Context(), ipam.Request{Owner: owner("b"), Addresses: []netip.Addr{address}}); !errors.Is(err, ipam.ErrMismatch) {
		t.Errorf("a requested address: %v", err)
	}
	if err := h.Reserve(t.Context(), address, ipam.Job{Namespace: "default", Job: "web"}); !errors.Is(err, ipam.ErrMismatch) {
		t.Errorf("an operator's: %v", err)
	}
}

// TestDualStack: if one family has no address, the attachment gets none of the other.
func TestDualStack(t *testing.T) {
	h := newHost(t, newStore(), 0, `"ranges": [{"subnet": "fd00::/120"}, {"subnet": "10.0.0.0/30"}]`)
	first := h.add("a")
	if v6, v4, _ := strings.Cut(first, " "); !netip.MustParsePrefix("fd00::/120").Contains(netip.MustParseAddr(v6)) || v4 != "10.0.0.2" {
		t.Errorf("a gets %s", first)
	}
	if got := h.add("b"); !strings.Contains(got, "pool p, IPv4: 1 blocks of this host have none; a new block: pool p: none of 1 blocks of IPv4") {
		t.Errorf("b gets %s", got)
	}
	if leases, err := h.local.Of(t.Context(), owner("b")); err != nil || len(leases) > 0 {
		t.Errorf("b has %v, %v", leases, err)
	}
	h.del("a")
	h.clock = h.clock.Add(time.Minute)
	if got := h.add("b"); !strings.HasSuffix(got, " 10.0.0.2") {
		t.Errorf("b gets %s", got)
	}
}

// TestInvalidRequests: they are refused before anything is done.
func TestInvalidRequests(t *testing.T) {
	store := newStore()
	h := newHost(t, store, 0, `"sticky": true, "reserved": ["10.0.0.4/30"], "ranges": [{"subnet": "10.0.0.0/28", "gateway": "10.0.0.6", "exclude": ["10.0.0.7"]}]`)
	requested := func(addresses ...string) ipam.Request {
		r := ipam.Request{Owner: owner("a")}
		for _, a := range addresses {
			r.Addresses = append(r.Addresses, netip.MustParseAddr(a))
		}
		return r
	}
	keyed := func(key string) ipam.Request {
		return ipam.Request{Owner: owner("a"), Job: ipam.Job{Namespace: "default", Job: "web", Key: key}}
	}
	for want, r := range map[string]ipam.Request{
		"requested address 10.0.0.7 is in no reserved range of the pool p ([10.0.0.4/30]), or excluded": requested("10.0.0.7"),
		"requested address 10.0.0.6 is in no reserved range":                                            requested("10.0.0.6"),
		"requested address 10.1.0.4 is in no reserved range":                                            requested("10.1.0.4"),
		"requested address fd00::4 is in no reserved range":                                             requested("10.0.0.4", "fd00::4"),
		"requested addresses are [10.0.0.4 10.0.0.4]: want one of each family":                          requested("10.0.0.4", "10.0.0.4"),
		"129 bytes: want at most 128 bytes of printable UTF-8":                                          keyed(strings.Repeat("k", 129)),
		`address key "a\xff"`:                                      keyed("a\xff"),
		`address key "a\x1b[2J"`:                                   keyed("a\x1b[2J"),
		`address key "a\nb"`:                                       keyed("a\nb"),
		`attachment "" of container "a": want both`:                {Owner: ipam.Owner{ContainerID: "a"}},
		`attachment "eth0" of container ""`:                        {Owner: ipam.Owner{Interface: "eth0"}},
		"requested address 10.0.0.9 is in no reserved range":       {Owner: owner("a"), Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.9")}},
		"requested addresses are [10.0.0.4 10.0.0.5]: want one of": {Owner: owner("a"), Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.4"), netip.MustParseAddr("10.0.0.5")}},
	} {
		if _, err := h.Add(t.Context(), r); !errors.Is(err, ipam.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %s", err, want)
		}
	}
	if requests := store.reads.Load() + store.writes.Load(); requests > 0 {
		t.Errorf("%d requests", requests)
	}
}

// TestRequested: a requested address of one family, and one of a block of the other; both are
// freed together, and the other host gets it.
func TestRequested(t *testing.T) {
	config := `"reserved": ["10.0.0.4/30"], "ranges": [{"subnet": "fd00::/122"}, {"subnet": "10.0.0.0/28"}]`
	store := newStore()
	a, b := newHost(t, store, 0, config), newHost(t, store, 1, config)
	r := ipam.Request{Owner: owner("a"), Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.5")}, Job: ipam.Job{Allocation: "a1"}}
	for range 2 {
		if got := a.request(r); got != "fd00::2 10.0.0.5" {
			t.Errorf("a gets %s", got)
		}
	}
	a.requireNo(a.Check(t.Context(), owner("a"), addrs("10.0.0.5", "fd00::2")))
	if usage, err := a.Usage(t.Context()); err != nil || !slices.Equal(usage.Reserved, r.Addresses) {
		t.Errorf("the usage is %+v, %v", usage, err)
	}
	a.del("a")
	if leases, err := a.local.Leased(t.Context()); err != nil || len(leases) > 0 {
		t.Errorf("leases are left: %v, %v", leases, err)
	}
	r.Owner, r.Job.Allocation = owner("b"), "b1"
	ctx, stop := context.WithCancel(t.Context())
	stop() // what is free for less than 5 s is waited for
	if _, err := b.Add(ctx, r); err == nil {
		t.Error("b gets it at once")
	}
	a.clock, b.clock = a.clock.Add(time.Minute), b.clock.Add(time.Minute)
	if got := b.request(r); !strings.Contains(got, "10.0.0.5") && !strings.Contains(got, "IPv6") {
		t.Errorf("b gets %s", got)
	}
}

// TestHalfARequest: if there is no address of the other family, the requested one is given back.
func TestHalfARequest(t *testing.T) {
	h := newHost(t, newStore(), 0, `"reserved": ["10.0.0.4/30"], "ranges": [{"subnet": "fd00::/128"}, {"subnet": "10.0.0.0/28"}]`)
	h.options.Config.Ranges[0].Exclude = []netip.Prefix{netip.MustParsePrefix("fd00::/128")}
	r := ipam.Request{Owner: owner("a"), Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.5")}}
	if got := h.request(r); !strings.Contains(got, "IPv6") {
		t.Errorf("a gets %s", got)
	}
	overview, err := h.Show(t.Context())
	if err != nil || len(overview.Addresses) != 1 || overview.Addresses[0].State != ipam.Free {
		t.Errorf("the store has %+v, %v", overview.Addresses, err)
	}
}

// TestSticky: the same key gets the same address, on another host as well.
func TestSticky(t *testing.T) {
	config := `"sticky": true, "reserved": ["10.0.0.4/30"], "ranges": [{"subnet": "10.0.0.0/28"}]`
	store := newStore()
	a, b := newHost(t, store, 0, config), newHost(t, store, 1, config)
	job := ipam.Job{Namespace: "default", Job: "web", Group: "g", Key: "0", Allocation: "a1"}
	first := a.request(ipam.Request{Owner: owner("a1"), Job: job})
	if !netip.MustParsePrefix("10.0.0.4/30").Contains(netip.MustParseAddr(first)) {
		t.Fatalf("a gets %s", first)
	}
	a.del("a1")
	a.clock, b.clock = a.clock.Add(time.Minute), b.clock.Add(time.Minute)
	job.Allocation = "b1"
	if got := b.request(ipam.Request{Owner: owner("b1"), Job: job}); got != first {
		t.Errorf("b gets %s, want %s", got, first)
	}
	if got := b.request(ipam.Request{Owner: owner("b2"), Job: ipam.Job{Allocation: "b2"}}); got != "10.0.0.2" {
		t.Errorf("without a key b gets %s", got)
	}
}

// TestProbe: an address that another host uses is not given out; without a probe there is no
// address.
func TestProbe(t *testing.T) {
	h := newHost(t, newStore(), 0, one)
	used, broken := "10.0.0.2", error(nil)
	h.options.Probe = func(_ context.Context, a netip.Addr) (bool, error) { return strings.Contains(used, a.String()), broken }
	h.restart()
	h.requireAdd("a", "10.0.0.3")
	h.requireAdd("a", "10.0.0.3")
	broken = errors.New("probe for an address: no such interface")
	h.requireAdd("b", "probe for an address: no such interface")
	broken, used = nil, "10.0.0.5 10.0.0.6 10.0.0.4"
	h.clock = h.clock.Add(time.Minute)
	if got := h.add("b"); !strings.Contains(got, "other hosts use 3 addresses of this host's blocks, the last is 10.0.0.4") {
		t.Errorf("b gets %s", got)
	}
	used = ""
	if got := h.add("b"); !strings.Contains(got, "4 more from") {
		t.Errorf("b gets %s", got)
	}
	h.clock = h.clock.Add(time.Hour)
	h.requireAdd("b", "10.0.0.2")
	h.requireConflicts(4)
	if err := os.WriteFile(h.conflicts.path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	h.requireConflicts(0)
}

func (h *host) requireConflicts(want uint64) {
	h.Helper()
	if usage, err := h.Usage(h.Context()); err != nil || usage.Conflicts != want {
		h.Errorf("%d conflicts, %v, want %d", usage.Conflicts, err, want)
	}
}

// TestFenced: a host that has not verified gives out no address until it has, or another fence is
// configured. That needs no store.
func TestFenced(t *testing.T) {
	store := newStore()
	h := newHost(t, store, 0, one)
	h.requireAdd("a", "10.0.0.2")
	h.options.Fence = fence(time.Nanosecond)
	h.restart()
	store.fail(ipam.ErrUnavailable)
	if _, err := h.Verify(t.Context(), 0); !errors.Is(err, ipam.ErrUnavailable) {
		t.Errorf("verification: %v", err)
	}
	h.options.Fence = nil // as another process that reads the record
	h.restart()
	_, err := h.Add(t.Context(), ipam.Request{Owner: owner("b")})
	if !errors.Is(err, ipam.ErrUnavailable) {
		t.Errorf("the error is %v", err)
	}
	if err := h.Status(t.Context()); !errors.Is(err, ipam.ErrFenced) {
		t.Errorf("the status is %v", err)
	}
	h.requireAdd("a", "10.0.0.2")
	h.options.Fence = fence(0)
	h.restart()
	if _, err := h.Verify(t.Context(), 0); !errors.Is(err, ipam.ErrUnavailable) {
		t.Errorf("verification: %v", err)
	}
	h.requireAdd("b", "10.0.0.3")
}

func fence(d time.Duration) func() (time.Duration, error) {
	return func() (time.Duration, error) { return d, nil }
}

// TestUnverified: with the store, a fenced host verifies at once.
func TestUnverified(t *testing.T) {
	store := newStore()
	h := newHost(t, store, 0, one)
	h.requireAdd("a", "10.0.0.2")
	path := filepath.Join(h.options.Config.StateDir, "ipam/pools/p/blocks.json")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(data), `"verified":{`, `"verified":{},"_":{`, 1)
	if err := os.WriteFile(path, []byte(changed), 0o600); err != nil || changed == string(data) {
		t.Fatal(err, string(data))
	}
	if usage, err := h.Usage(t.Context()); err != nil || !usage.Fenced {
		t.Errorf("the usage is %+v, %v", usage, err)
	}
	h.requireAdd("b", "10.0.0.3")
}

// TestLost: a block that another host has in the store gives out no more addresses, and CHECK
// says so.
func TestLost(t *testing.T) {
	store := newStore()
	h := newHost(t, store, 0, four)
	h.add("a")
	usage, err := h.Usage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b := usage.Blocks[0].Block
	path := ipam.BlockPath("p", b)
	entry, err := store.Get(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	content, err := ipam.DecodeBlock(entry.Content, h.options.Config)
	if err != nil {
		t.Fatal(err)
	}
	content.Host.Instance = strings.Repeat("f", 32)
	if _, err := store.Update(t.Context(), path, ipam.Encode(content), entry.Index); err != nil {
		t.Fatal(err)
	}
	verified, err := h.Verify(t.Context(), 0)
	if err != nil || !slices.Equal(verified.Lost, []ipam.Block{b}) || verified.Index == 0 {
		t.Errorf("verified %+v, %v", verified, err)
	}
	if err := h.Check(t.Context(), owner("a"), addrs(h.add("a"))); !errors.Is(err, ipam.ErrNoLease) || !strings.Contains(fmt.Sprint(err), "another host owns") {
		t.Errorf("CHECK says %v", err)
	}
	if got := h.add("b"); b.Contains(netip.MustParseAddr(got)) {
		t.Errorf("b gets %s, of the lost block %s", got, b)
	}
}

// addrs parses addresses.
func addrs(texts ...string) (all []netip.Addr) {
	for _, text := range texts {
		all = append(all, netip.MustParseAddr(text))
	}
	return all
}

// TestCheck: the addresses of the result are those of the attachment's leases.
func TestCheck(t *testing.T) {
	h := newHost(t, newStore(), 0, one)
	h.requireAdd("a", "10.0.0.2")
	h.requireAdd("b", "10.0.0.3")
	for want, addresses := range map[string]string{"": "10.0.0.2", "want one of 10.0.0.3": "10.0.0.2 10.0.0.3", "which the result [] lacks": "", "lease of 10.0.0.2, which the result [192.0.2.1] lacks": "192.0.2.1"} {
		err := h.Check(t.Context(), owner("a"), addrs(strings.Fields(addresses)...))
		if (err == nil) != (want == "") || err != nil && (!errors.Is(err, ipam.ErrNoLease) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", addresses, err, want)
		}
	}
	if err := h.Check(t.Context(), owner("c"), nil); !errors.Is(err, ipam.ErrNoLease) {
		t.Errorf("CHECK of an attachment without a lease: %v", err)
	}
	if err := os.Remove(filepath.Join(h.options.Config.StateDir, "ipam/pools/p/blocks.json")); err != nil {
		t.Fatal(err)
	}
	if err := h.Check(t.Context(), owner("a"), addrs("10.0.0.2")); !errors.Is(err, ipam.ErrNoLease) || !strings.Contains(err.Error(), "which this host does not have") {
		t.Errorf("CHECK without a block: %v", err)
	}
}

// TestDel: an attachment loses its addresses, of blocks and reserved ones, and no other does.
func TestDel(t *testing.T) {
	h := newHost(t, newStore(), 0, `"cooldown": "0s", "reserved": ["10.0.0.4/30"], "ranges": [{"subnet": "10.0.0.0/28"}]`)
	h.requireAdd("a", "10.0.0.2")
	h.requireAdd("b", "10.0.0.3")
	if got := h.request(ipam.Request{Owner: owner("c"), Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.5")}}); got != "10.0.0.5" {
		t.Fatal(got)
	}
	h.del("a")
	h.del("c")
	if leases, err := h.Leases(t.Context()); err != nil || len(leases) != 1 || leases[0].Owner != owner("b") {
		t.Errorf("the leases are %v, %v", leases, err)
	}
	if overview, err := h.Show(t.Context()); err != nil || overview.Addresses[0].State != ipam.Free {
		t.Errorf("the store has %+v, %v", overview.Addresses, err)
	}
}

// TestClaimAhead: a block is claimed when less than a quarter is free, and none after that.
func TestClaimAhead(t *testing.T) {
	h := newHost(t, newStore(), 0, `"blockSize": {"4": 28}, "ranges": [{"subnet": "10.0.0.0/24", "rangeStart": "10.0.0.16", "rangeEnd": "10.0.0.239"}]`)
	claims := func(want int) {
		t.Helper()
		m, err := h.Maintain(t.Context())
		if err != nil || len(m.Claimed) != want || len(m.Released) > 0 {
			t.Errorf("maintained %+v, %v, want %d claims", m, err, want)
		}
	}
	claims(1)
	claims(0)
	for i := range 12 {
		h.add(fmt.Sprint("c", i))
		claims(0)
	}
	h.add("d")
	h.del("d") // a cooling address is not free
	claims(1)
	claims(0)
	usage, err := h.Usage(t.Context())
	if want := (FamilyUsage{ipam.IPv4, 2, Count{Used: 12, Cooling: 1, Free: 19}}); err != nil || usage.Families[0] != want {
		t.Errorf("the usage is %+v, %v, want %+v", usage.Families, err, want)
	}
}

// TestClaimAheadIsReached: a pool whose networks span hosts gets no block ahead that other hosts
// cannot reach. An attachment does not wait for that.
func TestClaimAheadIsReached(t *testing.T) {
	h := newHost(t, newStore(), 0, `"mode": "routed", "blockSize": {"4": 28}, "ranges": [{"subnet": "10.0.0.0/24"}]`)
	claims := func(want int) {
		t.Helper()
		if m, err := h.Maintain(t.Context()); err != nil || len(m.Claimed) != want {
			t.Errorf("maintained %+v, %v, want %d claims", m, err, want)
		}
	}
	set := func(e ipam.Endpoint) {
		t.Helper()
		if err := h.SetEndpoint(t.Context(), e); err != nil {
			t.Error(err)
		}
	}
	claims(0)
	for i := range 14 {
		h.add(fmt.Sprint("c", i))
	}
	claims(0)
	set(ipam.Endpoint{Address: netip.MustParseAddr("192.0.2.1")})
	claims(1)
	h.add("d")
	set(ipam.Endpoint{})
	for i := range 14 {
		h.add(fmt.Sprint("e", i))
	}
	claims(0)
}

// TestSpare: so many empty blocks stay that releasing another is no reason to claim one.
func TestSpare(t *testing.T) {
	for used, want := range []int{1, 1, 2, 2, 3, 3} {
		u := Usage{Blocks: []BlockUsage{{netip.MustParsePrefix("10.0.0.0/28"), "lost", Count{Used: 1}}}}
		for i := range used {
			u.Blocks = append(u.Blocks, BlockUsage{netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(i)}), 28), "held", Count{Used: 16}})
		}
		if got := (&Pool{o: Options{Config: &ipam.Config{}}}).spare(u); got != want {
			t.Errorf("with %d blocks in use %d stay, want %d", used, got, want)
		}
		if free := want * 16; free*freeShare < (used+want)*16 {
			t.Errorf("with %d blocks in use and %d free ones another is claimed", used, want)
		}
	}
}

// TestShow: all entries of the pool, also those that are not understood.
func TestShow(t *testing.T) {
	store := newStore()
	h := newHost(t, store, 0, `"reserved": ["10.0.0.4/30"], "ranges": [{"subnet": "10.0.0.0/28"}]`)
	if overview, err := h.Show(t.Context()); err != nil || overview.Content != nil {
		t.Errorf("an unused pool is %+v, %v", overview, err)
	}
	h.requireAdd("a", "10.0.0.2")
	h.requireNo(h.Reserve(t.Context(), netip.MustParseAddr("10.0.0.5"), ipam.Job{Namespace: "default", Job: "web"}))
	for _, path := range []string{"allocnet/ipam/1/p/b/0a000100-28", "allocnet/ipam/1/p/a/0a000006"} {
		if _, err := store.Create(t.Context(), path, ipam.Encode(ipam.BlockContent{Pool: "p"})); err != nil {
			t.Fatal(err)
		}
	}
	overview, err := h.Show(t.Context())
	if err != nil || overview.Content.Hash() != h.options.Config.Hash() || len(overview.Blocks) != 1 || len(overview.Addresses) != 1 || len(overview.Unknown) != 2 {
		t.Fatalf("the pool is %+v, %v", overview, err)
	}
	if b := overview.Blocks[0]; b.Block != netip.MustParsePrefix("10.0.0.0/28") || b.Host.NodeName != "name0" {
		t.Errorf("the block is %+v", b)
	}
	if a := overview.Addresses[0]; a.Address != netip.MustParseAddr("10.0.0.5") || a.Job.Job != "web" || a.State != ipam.Free {
		t.Errorf("the address is %+v", a)
	}
	h.requireNo(h.Unreserve(t.Context(), netip.MustParseAddr("10.0.0.5")))
	if overview, err := h.Show(t.Context()); err != nil || len(overview.Addresses) > 0 {
		t.Errorf("the addresses are %+v, %v", overview.Addresses, err)
	}
}

// TestReleaseNode: what a node had is another's after an operator's word.
func TestReleaseNode(t *testing.T) {
	store := newStore()
	a, b := newHost(t, store, 0, one), newHost(t, store, 1, one)
	a.requireAdd("a", "10.0.0.2")
	if got := b.add("b"); !strings.Contains(got, "none of 1 blocks") {
		t.Errorf("b gets %s", got)
	}
	if _, _, err := b.ReleaseNode(t.Context(), ""); !errors.Is(err, ipam.ErrInvalid) {
		t.Errorf("released a node without a name: %v", err)
	}
	blocks, _, err := b.ReleaseNode(t.Context(), "node0")
	if err != nil || len(blocks) != 1 {
		t.Errorf("released %v, %v", blocks, err)
	}
}

// gone is a Holder to which some nodes are gone.
type gone string

func (gone) Ended(context.Context, string, string) (time.Time, error) { return time.Time{}, nil }

func (g gone) Gone(_ context.Context, nodeID string) (bool, error) { return string(g) == nodeID, nil }

// age lets what a host has noticed of entries be older.
func (h *host) age(key string, by time.Duration) {
	h.Helper()
	path := filepath.Join(h.options.Config.StateDir, "ipam/pools/p/view.json")
	view := map[string]any{}
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, &view)
	}
	noticed, _ := view[key].(map[string]any)
	for _, one := range noticed {
		at := one.(map[string]any)["at"].(map[string]any)
		at["uptime"] = at["uptime"].(float64) - float64(by)
	}
	if data, errEncode := json.Marshal(view); errEncode == nil && err == nil && len(noticed) > 0 {
		err = os.WriteFile(path, data, 0o600)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		h.Error(err)
	}
}

// TestReclaim: only with a Holder, and only what nodes had that are gone, whose hosts are silent.
func TestReclaim(t *testing.T) {
	store := newStore()
	config := `"reserved": ["10.0.0.4/30"], "ranges": [{"subnet": "10.0.0.0/28"}]`
	a, b := newHost(t, store, 0, config), newHost(t, store, 1, config)
	a.requireAdd("a", "10.0.0.2")
	b.options.Grace = time.Nanosecond
	for holder, want := range map[Holder]int{nil: 0, gone("node7"): 0, gone("node0"): 1} {
		b.options.Holder = holder
		b.restart()
		var all []ipam.Block
		for range 3 {
			blocks, _, err := b.Reclaim(t.Context())
			b.requireNo(err)
			all = append(all, blocks...)
			b.age("silent", 23*time.Hour)
		}
		if len(all) != want {
			t.Errorf("%v: reclaimed %v, want %d", holder, all, want)
		}
	}
}

// TestAdopt: what an earlier state of this node has is asked for.
func TestAdopt(t *testing.T) {
	store := newStore()
	config := `"reserved": ["10.0.0.4/30"], "ranges": [{"subnet": "10.0.0.0/28"}]`
	newHost(t, store, 0, config).requireAdd("a", "10.0.0.2")
	h := newHost(t, store, 0, config)
	instance := strings.Repeat("e", 32)
	if err := os.WriteFile(filepath.Join(h.options.Config.StateDir, "ipam/instance"), []byte(instance), 0o600); err != nil {
		t.Fatal(err)
	}
	open := h.options.Open
	h.options.Open = func() (ipam.Store, ipam.Host, error) {
		store, self, err := open()
		self.Instance = instance
		return store, self, err
	}
	h.restart()
	var asked []netip.Prefix
	_, _, err := h.Adopt(t.Context(), func(p netip.Prefix) (bool, error) { asked = append(asked, p); return true, nil })
	if want := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/28")}; err != nil || !slices.Equal(asked, want) {
		t.Errorf("asked for %v, %v, want %v", asked, err, want)
	}
	if adopting, err := h.Adopting(); adopting || err != nil {
		t.Errorf("what is in use is to be adopted: %t, %v", adopting, err)
	}
	if _, _, err := h.Adopt(t.Context(), func(netip.Prefix) (bool, error) { return false, nil }); err != nil {
		t.Error(err)
	}
	if adopting, err := h.Adopting(); !adopting || err != nil {
		t.Errorf("what was unused once is to be adopted: %t, %v", adopting, err)
	}
	path := ipam.BlockPath("p", netip.MustParsePrefix("10.0.0.0/28"))
	if err := store.Delete(t.Context(), path, mustGet(t, store, path).Index); err != nil {
		t.Fatal(err)
	}
	if _, _, err := h.Adopt(t.Context(), func(netip.Prefix) (bool, error) { return false, nil }); err != nil {
		t.Error(err)
	}
	if adopting, err := h.Adopting(); adopting || err != nil {
		t.Errorf("what is gone is to be adopted: %t, %v", adopting, err)
	}
}

func mustGet(t *testing.T, s ipam.Store, path string) ipam.Entry {
	t.Helper()
	e, err := s.Get(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestVerifyWaits: with an index Verify waits for a change.
func TestVerifyWaits(t *testing.T) {
	store := &storetest.Fake{}
	h := newHost(t, store, 0, one)
	h.add("a")
	first, err := h.Verify(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	ended, stop := context.WithCancel(t.Context())
	stop()
	if _, err := h.Verify(ended, first.Index); err == nil {
		t.Error("it does not wait")
	}
}

// TestWaitingAfterBoot: without another block, the error of an attachment soon after a boot says
// what is waited for, and how long.
func TestWaitingAfterBoot(t *testing.T) {
	h := newHost(t, newStore(), 1, `"ranges": [{"subnet": "10.0.0.0/29"}], "blockSize": {"4": 29}`)
	h.add("a")
	h.requireNo(os.RemoveAll(h.options.Config.RunDir)) // as a boot does
	_, err := h.Add(t.Context(), ipam.Request{Owner: owner("b")})
	waits := "waits until the store has answered for 40s, in which a machine of which it is a copy can object: for "
	for _, err := range []error{err, h.Status(t.Context())} {
		if errdefs.Of(err) != errdefs.Unavailable || !strings.Contains(fmt.Sprint(err), waits) {
			t.Errorf("the error is %v", err)
		}
	}
	h.requireAdd("a", "10.0.0.2")
}
