// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package peers_test

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/hashicorp/go-hclog"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/ipam/peers"
	"github.com/allocnet/allocnet/cluster/ipam/storetest"
)

// config has 16 blocks of each family.
func config(t testing.TB) *ipam.Config {
	t.Helper()
	c, err := ipam.Parse([]byte(`{"type": "allocnet-ipam", "pool": "p", "blockSize": {"4": 28, "6": 124}, "ranges": [{"subnet": "10.0.0.0/24"}, {"subnet": "fd00::/120"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func host(letter string) ipam.Host {
	return ipam.Host{Instance: strings.Repeat(letter, 32), NodeID: "node-" + letter, NodeName: "name-" + letter, Boot: "boot-" + letter}
}

func endpoint(address string) ipam.Endpoint {
	return ipam.Endpoint{Address: netip.MustParseAddr(address), MAC: "02:00:5e:00:53:01"}
}

// content is what a host writes of a block.
func content(block string, h ipam.Host, e ipam.Endpoint) ipam.BlockContent {
	return ipam.BlockContent{Pool: "p", PoolHash: "0123456789abcdef", Block: netip.MustParsePrefix(block), Host: h, ClaimID: "c", Endpoint: e}
}

func put(t testing.TB, store ipam.Store, path string, data []byte) uint64 {
	t.Helper()
	index, err := store.Create(t.Context(), path, data)
	if err != nil {
		t.Fatal(err)
	}
	return index
}

func putBlock(t testing.TB, store ipam.Store, c ipam.BlockContent) uint64 {
	t.Helper()
	return put(t, store, ipam.BlockPath("p", c.Block), ipam.Encode(c))
}

// open is the connection of a host to a store.
func open(store ipam.Store, h ipam.Host) func() (ipam.Store, ipam.Host, error) {
	return func() (ipam.Store, ipam.Host, error) { return store, h, nil }
}

var asText = cmp.Options{
	cmp.Transformer("prefix", netip.Prefix.String), cmp.Transformer("address", netip.Addr.String), cmpopts.EquateErrors(),
}

func TestBlocks(t *testing.T) {
	store, a, b := &storetest.Fake{}, host("a"), host("b")
	p := peers.New(peers.Options{Config: config(t), Open: open(store, a)})
	putBlock(t, store, content("10.0.0.32/28", a, ipam.Endpoint{}))
	remote := endpoint("192.0.2.2")
	six := putBlock(t, store, content("fd00::10/124", b, remote))
	four := putBlock(t, store, content("10.0.0.16/28", b, remote))
	got, err := p.Next(t.Context())
	want := peers.Blocks{
		Own: []ipam.Block{netip.MustParsePrefix("10.0.0.32/28")},
		Remote: []peers.Remote{
			{Block: netip.MustParsePrefix("10.0.0.16/28"), Host: b, Endpoint: remote, Index: four},
			{Block: netip.MustParsePrefix("fd00::10/124"), Host: b, Endpoint: remote, Index: six},
		},
	}
	if diff := cmp.Diff(want, got, asText); diff != "" || err != nil {
		t.Errorf("blocks: %v (-want +got):\n%s", err, diff)
	}
}

// testStore counts requests, and fails reads if it is told to.
type testStore struct {
	storetest.Fake
	mu sync.Mutex // guards all below
	// lists is the number of listings, and gets are the paths that were read.
	lists int
	gets  []string
	// reading is the number of reads at the moment, and most what it has been.
	reading, most int
	// err is the answer to reads of paths that contain failing.
	failing string
	err     error
	// unlisted is the answer to listings. Nil: they succeed.
	unlisted error
}

func (s *testStore) List(ctx context.Context, prefix string, after uint64) (ipam.Listing, error) {
	s.mu.Lock()
	s.lists++
	s.mu.Unlock()
	if s.unlisted != nil {
		return ipam.Listing{}, s.unlisted
	}
	ctx, stop := context.WithTimeout(ctx, 10*time.Second)
	defer stop()
	listing, err := s.Fake.List(ctx, prefix, after)
	if err != nil { // the wait is over
		return s.Fake.List(context.WithoutCancel(ctx), prefix, 0)
	}
	return listing, nil
}

func (s *testStore) Get(ctx context.Context, path string) (ipam.Entry, error) {
	s.mu.Lock()
	s.gets = append(s.gets, path)
	s.reading++
	s.most = max(s.most, s.reading)
	fails := s.err != nil && strings.Contains(path, s.failing)
	s.mu.Unlock()
	time.Sleep(time.Millisecond) // others begin meanwhile
	if fails {
		time.Sleep(time.Millisecond) // and end
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reading--; fails {
		return ipam.Entry{}, s.err
	}
	return s.Fake.Get(ctx, path)
}

// asked returns what was asked for since the last call.
func (s *testStore) asked() (lists, gets int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	lists, gets = s.lists, len(s.gets)
	s.lists, s.gets = 0, nil
	return lists, gets
}

func mustNext(t *testing.T, p *peers.Peers) peers.Blocks {
	t.Helper()
	blocks, err := p.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return blocks
}

// remotes are the blocks of other hosts, with their addresses.
func remotes(b peers.Blocks) string {
	var all []string
	for _, r := range b.Remote {
		all = append(all, r.Block.String()+" at "+r.Endpoint.Address.String())
	}
	return strings.Join(all, ", ")
}

// blocksOf are blocks of the pool with the first n numbers.
func blocksOf(t testing.TB, n int, e ipam.Endpoint) []ipam.BlockContent {
	t.Helper()
	var all []ipam.BlockContent
	slots := config(t).Slots(ipam.IPv4)
	for i := range n {
		all = append(all, content(slots.At(uint64(i)).String(), host("b"), e))
	}
	return all
}

// TestOnlyChangesAreRead: at most 8 contents are read at a time, each once, and later what has
// changed. Without a change Next returns after a while.
func TestOnlyChangesAreRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &testStore{}
		all := blocksOf(t, 16, endpoint("192.0.2.2"))
		var last uint64
		for _, c := range all {
			last = putBlock(t, store, c)
		}
		p := peers.New(peers.Options{Config: config(t), Open: open(store, host("a"))})
		if got := mustNext(t, p); len(got.Remote) != 16 || store.most != 8 {
			t.Errorf("%d blocks, %d reads at a time, want 16 and 8", len(got.Remote), store.most)
		}
		requireAsked(t, store, 1, 16)
		begun := time.Now()
		if got := mustNext(t, p); len(got.Remote) != 16 || time.Since(begun) < 10*time.Second {
			t.Errorf("%d blocks after %s, want 16 after 10 s", len(got.Remote), time.Since(begun))
		}
		requireAsked(t, store, 1, 0)
		all[15].Endpoint = endpoint("192.0.2.3")
		if _, err := store.Update(t.Context(), ipam.BlockPath("p", all[15].Block), ipam.Encode(all[15]), last); err != nil {
			t.Fatal(err)
		}
		if got := remotes(mustNext(t, p)); strings.Count(got, "192.0.2.2") != 15 || strings.Count(got, "192.0.2.3") != 1 {
			t.Errorf("after a change the blocks are %s", got)
		}
		requireAsked(t, store, 1, 1)
	})
}

func requireAsked(t *testing.T, store *testStore, lists, gets int) {
	t.Helper()
	if l, g := store.asked(); l != lists || g != gets {
		t.Errorf("%d listings and %d reads, want %d and %d", l, g, lists, gets)
	}
}

// TestBurst: while blocks change all the time, they are listed twice in a second, and what changed
// meanwhile is there at once. The first of several changes is not waited for.
func TestBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &testStore{}
		p := peers.New(peers.Options{Config: config(t), Open: open(store, host("a"))})
		mustNext(t, p)
		var writer sync.WaitGroup
		defer writer.Wait()
		writer.Go(func() {
			time.Sleep(time.Second)
			for _, c := range blocksOf(t, 10, endpoint("192.0.2.2")) {
				putBlock(t, store, c)
				time.Sleep(110 * time.Millisecond)
			}
		})
		var counts []int
		var times []time.Duration
		begun := time.Now()
		for range 3 {
			counts = append(counts, len(mustNext(t, p).Remote))
			times = append(times, time.Since(begun).Round(100*time.Millisecond))
		}
		// The listing of the first change began long ago, so that the second one begins at once.
		wantTimes := []time.Duration{time.Second, 1100 * time.Millisecond, 1500 * time.Millisecond}
		if diff := cmp.Diff([]int{1, 2, 5}, counts); diff != "" {
			t.Errorf("blocks (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(wantTimes, times); diff != "" {
			t.Errorf("times (-want +got):\n%s", diff)
		}
	})
}

// TestRestored: a store that was restored is read as a whole, because an index may be that of
// another content.
func TestRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		old, restored := &testStore{}, &testStore{}
		store := ipam.Store(old)
		p := peers.New(peers.Options{
			Config: config(t), Open: func() (ipam.Store, ipam.Host, error) { return store, host("a"), nil },
			Logger: hclog.New(&hclog.LoggerOptions{Output: &log}),
		})
		for _, c := range blocksOf(t, 3, endpoint("192.0.2.2")) {
			putBlock(t, old, c)
		}
		mustNext(t, p)
		for _, c := range blocksOf(t, 2, endpoint("192.0.2.3")) {
			putBlock(t, restored, c)
		}
		store = restored
		want := "10.0.0.0/28 at 192.0.2.3, 10.0.0.16/28 at 192.0.2.3"
		if got := remotes(mustNext(t, p)); got != want || !strings.Contains(log.String(), "restored from a snapshot") {
			t.Errorf("blocks %s, want %s, and a message:\n%s", got, want, &log)
		}
	})
}

// TestRestoredElsewhere: servers that were restored while the store did not answer count on from the
// snapshot's index: an index that is known may be that of another content.
func TestRestoredElsewhere(t *testing.T) {
	for name, fail := range map[string]func(store *testStore, opened *error){
		"no listing":    func(store *testStore, _ *error) { store.unlisted = ipam.ErrUnavailable },
		"no connection": func(_ *testStore, opened *error) { *opened = ipam.ErrUnavailable },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, opened := &testStore{}, error(nil)
				p := peers.New(peers.Options{Config: config(t), Open: func() (ipam.Store, ipam.Host, error) { return store, host("a"), opened }})
				old := blocksOf(t, 1, endpoint("192.0.2.2"))[0]
				known := putBlock(t, store, old)
				mustNext(t, p)
				fail(store, &opened)
				if _, err := p.Next(t.Context()); !errors.Is(err, ipam.ErrUnavailable) {
					t.Errorf("error %v, want %v", err, ipam.ErrUnavailable)
				}
				store, opened = &testStore{}, nil
				now := blocksOf(t, 2, endpoint("192.0.2.3"))
				if index := putBlock(t, store, now[0]); index != known {
					t.Fatalf("the index is %d: want %d, as before", index, known)
				}
				putBlock(t, store, now[1]) // the servers have counted on
				want := "10.0.0.0/28 at 192.0.2.3, 10.0.0.16/28 at 192.0.2.3"
				if got := remotes(mustNext(t, p)); got != want {
					t.Errorf("blocks %s, want %s", got, want)
				}
			})
		})
	}
}

// TestRestoredUnnoticed: servers that were restored between two listings have counted on past the last one: what is older there than what is
// known is what was restored.
func TestRestoredUnnoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &testStore{}
		p := peers.New(peers.Options{Config: config(t), Open: func() (ipam.Store, ipam.Host, error) { return store, host("a"), nil }})
		old := blocksOf(t, 2, endpoint("192.0.2.2"))
		putBlock(t, store, old[1])
		putBlock(t, store, old[0])
		mustNext(t, p)
		store = &testStore{}
		now := blocksOf(t, 4, endpoint("192.0.2.3"))
		for _, c := range now {
			putBlock(t, store, c)
		}
		want := "10.0.0.0/28 at 192.0.2.3, 10.0.0.16/28 at 192.0.2.3, 10.0.0.32/28 at 192.0.2.3, 10.0.0.48/28 at 192.0.2.3"
		if got := remotes(mustNext(t, p)); got != want {
			t.Errorf("blocks %s, want %s", got, want)
		}
	})
}

// TestAfterOutage: a store that answers again, with nothing changed, is read at once, and once.
func TestAfterOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &testStore{}
		p := peers.New(peers.Options{Config: config(t), Open: open(store, host("a"))})
		for _, c := range blocksOf(t, 3, endpoint("192.0.2.2")) {
			putBlock(t, store, c)
		}
		mustNext(t, p)
		store.unlisted = ipam.ErrUnavailable
		if _, err := p.Next(t.Context()); !errors.Is(err, ipam.ErrUnavailable) {
			t.Errorf("error %v, want %v", err, ipam.ErrUnavailable)
		}
		store.unlisted = nil
		store.asked()
		begun := time.Now()
		mustNext(t, p)
		if waited := time.Since(begun); waited > time.Second {
			t.Errorf("the blocks were there after %s, want at once", waited)
		}
		mustNext(t, p)
		requireAsked(t, store, 2, 3)
	})
}

// TestFailures: after a read that failed Next fails, and the next one reads what is missing only.
func TestFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &testStore{failing: ipam.BlockName(netip.MustParsePrefix("10.0.0.240/28")), err: ipam.ErrUnavailable}
		for _, c := range blocksOf(t, 16, endpoint("192.0.2.2")) {
			putBlock(t, store, c)
		}
		p := peers.New(peers.Options{Config: config(t), Open: open(store, host("a"))})
		if _, err := p.Next(t.Context()); !errors.Is(err, ipam.ErrUnavailable) {
			t.Errorf("error %v, want %v", err, ipam.ErrUnavailable)
		}
		store.asked()
		store.err = ipam.ErrNotFound // it was released before it was read
		if got := mustNext(t, p); len(got.Remote) != 15 {
			t.Errorf("%d blocks, want 15", len(got.Remote))
		}
		requireAsked(t, store, 1, 2) // what is missing is asked for twice: a server may be behind
		refused := errors.New("no configuration")
		p = peers.New(peers.Options{Config: config(t), Open: func() (ipam.Store, ipam.Host, error) { return nil, ipam.Host{}, refused }})
		if _, err := p.Next(t.Context()); !errors.Is(err, refused) {
			t.Errorf("error %v, want %v", err, refused)
		}
	})
}

// lagging is a store whose stale reads are those of another, which is behind.
type lagging struct {
	*testStore
	behind *testStore
}

func (l lagging) Stale() ipam.Store { return l.behind }

// TestServerBehind: stale reads that contradict what is known are not believed.
func TestServerBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leader, behind := &testStore{}, &testStore{}
		all := blocksOf(t, 2, endpoint("192.0.2.2"))
		for _, s := range []*testStore{leader, behind} {
			putBlock(t, s, all[0])
			putBlock(t, s, all[1])
		}
		all[1].Endpoint = endpoint("192.0.2.3")
		if _, err := leader.Update(t.Context(), ipam.BlockPath("p", all[1].Block), ipam.Encode(all[1]), 2); err != nil {
			t.Fatal(err)
		}
		store := ipam.Store(leader)
		p := peers.New(peers.Options{Config: config(t), Open: func() (ipam.Store, ipam.Host, error) { return store, host("a"), nil }})
		want := remotes(mustNext(t, p))
		leader.asked()
		store = lagging{leader, behind}
		if got := remotes(mustNext(t, p)); got != want {
			t.Errorf("a listing of a server that is behind gives %s, want %s", got, want)
		}
		requireAsked(t, leader, 1, 0)
		requireAsked(t, behind, 1, 0)

		// The listing is new, and the contents are read from a server that is behind.
		p = peers.New(peers.Options{Config: config(t), Open: open(listingOf{lagging{leader, behind}}, host("a"))})
		if got := remotes(mustNext(t, p)); got != want {
			t.Errorf("contents of a server that is behind give %s, want %s", got, want)
		}
		requireAsked(t, behind, 0, 2)
	})
}

// listingOf has stale reads of contents only.
type listingOf struct{ lagging }

func (l listingOf) Stale() ipam.Store { return halfStale(l) }

type halfStale struct{ lagging }

func (h halfStale) Get(ctx context.Context, path string) (ipam.Entry, error) {
	return h.behind.Get(ctx, path)
}

// TestInvalid: what is no block of another host is returned with the reason, and stops nothing.
func TestInvalid(t *testing.T) {
	a, b, good := host("a"), host("b"), endpoint("192.0.2.2")
	const here = "10.0.0.16/28"
	path := ipam.BlockPath("p", netip.MustParsePrefix(here))
	changed := func(change func(*ipam.BlockContent)) []byte {
		c := content(here, b, good)
		change(&c)
		return ipam.Encode(c)
	}
	of := func(block string) (string, []byte) {
		return ipam.BlockPath("p", netip.MustParsePrefix(block)), ipam.Encode(content(block, b, good))
	}
	type test struct {
		path string
		data []byte
		want string
	}
	tests := map[string]test{
		"no content":          {path, nil, "not JSON"},
		"oversized":           {path, append(changed(func(*ipam.BlockContent) {}), bytes.Repeat([]byte(" "), ipam.MaxContent)...), "want at most 65536"},
		"checksum":            {path, bytes.Replace(changed(func(*ipam.BlockContent) {}), []byte("192.0.2.2"), []byte("192.0.2.9"), 1), "checksum"},
		"another pool":        {path, changed(func(c *ipam.BlockContent) { c.Pool = "q" }), `of the pool "q"`},
		"another block":       {path, changed(func(c *ipam.BlockContent) { c.Block = netip.MustParsePrefix("10.0.0.32/28") }), "that of the block 10.0.0.32/28"},
		"own block's content": {path, changed(func(c *ipam.BlockContent) { c.Block = netip.MustParsePrefix("10.0.0.0/28") }), "that of the block 10.0.0.0/28"},
		"default route":       {path, changed(func(c *ipam.BlockContent) { c.Block = netip.MustParsePrefix("0.0.0.0/0") }), "no block of the pool"},
		"no owner":            {path, changed(func(c *ipam.BlockContent) { c.Host = ipam.Host{} }), "instance"},
		"no endpoint":         {path, changed(func(c *ipam.BlockContent) { c.Endpoint = ipam.Endpoint{} }), "address is empty"},
		"loopback":            {path, changed(func(c *ipam.BlockContent) { c.Endpoint.Address = netip.MustParseAddr("127.0.0.1") }), "address is 127.0.0.1"},
		"multicast device":    {path, changed(func(c *ipam.BlockContent) { c.Endpoint.MAC = "ff:ff:ff:ff:ff:ff" }), "mac is"},
		"no path":             {"allocnet/ipam/1/p/b/x", nil, "no name of a block"},
		"below a path":        {path + "/x", nil, "no name of a block"},
	}
	for name, block := range map[string]string{
		"outside": "10.1.0.0/28", "larger": "10.0.0.0/27", "smaller": "10.0.0.16/29", "covers an own block": "10.0.0.0/24", "within an own block": "10.0.0.0/30", "everything": "0.0.0.0/0", "everything of IPv6": "::/0",
	} {
		path, data := of(block)
		tests[name] = test{path, data, "no block of the pool p as this host has it"}
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			store := &storetest.Fake{}
			putBlock(t, store, content("10.0.0.0/28", a, good))
			putBlock(t, store, content("fd00::10/124", b, good))
			put(t, store, test.path, test.data)
			got := mustNext(t, peers.New(peers.Options{Config: config(t), Open: open(store, a)}))
			if len(got.Own) != 1 || len(got.Remote) != 1 {
				t.Errorf("own are %v, and of others %v, want one each", got.Own, got.Remote)
			}
			if len(got.Invalid) != 1 || got.Invalid[0].Path != test.path || !strings.Contains(got.Invalid[0].Err.Error(), test.want) {
				t.Errorf("invalid are %v, want %s with %q", got.Invalid, test.path, test.want)
			}
		})
	}
}

// TestHuge: of contents that are as large as they may be, little is kept, and little is said.
func TestHuge(t *testing.T) {
	long := strings.Repeat("x", 60_000)
	zone := netip.MustParseAddr("fe80::1").WithZone(long)
	for name, change := range map[string]func(*ipam.BlockContent){
		"pool":               func(c *ipam.BlockContent) { c.Pool = long },
		"hash of the pool":   func(c *ipam.BlockContent) { c.PoolHash = long },
		"instance":           func(c *ipam.BlockContent) { c.Host.Instance = long },
		"node ID":            func(c *ipam.BlockContent) { c.Host.NodeID = long },
		"name of the node":   func(c *ipam.BlockContent) { c.Host.NodeName = long },
		"machine":            func(c *ipam.BlockContent) { c.Host.MachineID = long },
		"boot":               func(c *ipam.BlockContent) { c.Host.Boot = long },
		"claim":              func(c *ipam.BlockContent) { c.ClaimID = long },
		"address":            func(c *ipam.BlockContent) { c.Endpoint.Address = zone },
		"link-local address": func(c *ipam.BlockContent) { c.Endpoint.LinkLocal = zone },
		"MAC":                func(c *ipam.BlockContent) { c.Endpoint.MAC = long },
	} {
		t.Run(name, func(t *testing.T) {
			store := &storetest.Fake{}
			for _, c := range blocksOf(t, 4, endpoint("192.0.2.2")) {
				path := ipam.BlockPath("p", c.Block)
				change(&c)
				put(t, store, path, ipam.Encode(c))
			}
			before := heap()
			p := peers.New(peers.Options{Config: config(t), Open: open(store, host("a"))})
			got := mustNext(t, p)
			if kept := heap() - before; len(got.Invalid)+len(got.Remote) != 4 || kept > 100_000 {
				t.Errorf("%d blocks and %d that are invalid keep %d bytes", len(got.Remote), len(got.Invalid), kept)
			}
			for _, i := range got.Invalid {
				if text := i.Err.Error(); len(text) > 400 {
					t.Errorf("an error of %d bytes: %.200s", len(text), text)
				}
			}
			runtime.KeepAlive(p)
		})
	}
}

// heap is what is in use, in bytes.
func heap() int64 {
	runtime.GC()
	runtime.GC() // what the first one finalized
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc) // far below
}

// TestNeedlessReads: paths that are no block of the pool are not read, however many there are.
func TestNeedlessReads(t *testing.T) {
	store := &testStore{}
	for i := range 50 {
		put(t, store, ipam.BlocksPrefix("p")+strings.Repeat("x", i+1), nil)
	}
	got := mustNext(t, peers.New(peers.Options{Config: config(t), Open: open(store, host("a"))}))
	if len(got.Invalid) != 50 {
		t.Errorf("%d are invalid, want 50", len(got.Invalid))
	}
	requireAsked(t, store, 1, 0)
}

// TestDoubted: after an outage the servers are not asked for all contents at once, and not for what
// is no block of the pool.
func TestDoubted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &testStore{}
		p := peers.New(peers.Options{Config: config(t), Open: open(store, host("a"))})
		for _, c := range blocksOf(t, 16, endpoint("192.0.2.2")) {
			putBlock(t, store, c)
		}
		slots := config(t).Slots(ipam.IPv6)
		for i := range uint64(8) {
			putBlock(t, store, content(slots.At(i).String(), host("b"), endpoint("192.0.2.2")))
		}
		putBlock(t, store, content("10.9.0.0/28", host("b"), endpoint("192.0.2.2")))
		mustNext(t, p)
		store.unlisted = ipam.ErrUnavailable
		if _, err := p.Next(t.Context()); !errors.Is(err, ipam.ErrUnavailable) {
			t.Errorf("error %v, want %v", err, ipam.ErrUnavailable)
		}
		store.unlisted = nil
		store.asked()
		for _, reads := range []int{16, 8, 0} {
			if got := mustNext(t, p); len(got.Remote) != 24 || len(got.Invalid) != 1 {
				t.Errorf("%d blocks and %d others, want 24 and 1", len(got.Remote), len(got.Invalid))
			}
			requireAsked(t, store, 1, reads)
		}
	})
}

// TestFirstListing: a server that is behind, as one that has just started, has no say in which blocks
// there are until it is known.
func TestFirstListing(t *testing.T) {
	store := lagging{&testStore{}, &testStore{}}
	all := blocksOf(t, 3, endpoint("192.0.2.2"))
	putBlock(t, store.behind, all[0])
	for _, c := range all {
		putBlock(t, store.testStore, c)
	}
	p := peers.New(peers.Options{Config: config(t), Open: open(store, host("a"))})
	if got := mustNext(t, p).Remote; len(got) != len(all) {
		t.Errorf("blocks %v, want %d", got, len(all))
	}
}

// TestRestoredAndCounted: a store that was restored, and written to since by others, may have a higher index than what is known. An entry that
// then has a lower index than before is another one, too.
func TestRestoredAndCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, restored := &testStore{}, &testStore{}
		store := ipam.Store(old)
		p := peers.New(peers.Options{Config: config(t), Open: func() (ipam.Store, ipam.Host, error) { return store, host("a"), nil }})
		blocks := blocksOf(t, 3, endpoint("192.0.2.2"))
		putBlock(t, old, blocks[1])
		putBlock(t, old, blocks[0])
		mustNext(t, p)
		for _, c := range blocksOf(t, 3, endpoint("192.0.2.3")) {
			putBlock(t, restored, c)
		}
		store = restored
		want := "10.0.0.0/28 at 192.0.2.3, 10.0.0.16/28 at 192.0.2.3, 10.0.0.32/28 at 192.0.2.3"
		if got := remotes(mustNext(t, p)); got != want {
			t.Errorf("blocks %s, want %s", got, want)
		}
	})
}
