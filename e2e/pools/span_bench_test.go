// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package pools

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sync/errgroup"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/ipam/nomadstore"
	"github.com/allocnet/allocnet/cluster/ipam/peers"
	"github.com/allocnet/allocnet/internal/sandbox/cluster"
)

// blocksPerHost is how many blocks each host of a pool that spans hosts has, and changes how many
// more are claimed, one after the other.
const blocksPerHost, changes = 5, 10

// quiet is for how long nothing changes: waits of 10 s end in it as often as they do later.
const quiet = 20 * time.Second

// BenchmarkSpan measures how soon hosts know a block that another one claims, and the load of
// the servers and the hosts: each host follows the blocks of all.
func BenchmarkSpan(b *testing.B) {
	s := startServers(b)
	for _, hosts := range []int{50, 200} {
		b.Run(fmt.Sprintf("hosts=%d", hosts), func(b *testing.B) { s.follow(b, hosts) })
	}
	b.Run("listing", s.listing)
}

// spanned is a pool that spans hosts.
type spanned struct {
	*servers
	config *ipam.Config
	store  ipam.Store
	// claimed is the number of its blocks.
	claimed int
	// requests are those of all hosts to read, and failures those of Next.
	requests, failures atomic.Int64
	reports            chan report
	// contents are those that the first host has read, by path. The others begin with them: together
	// they would take the servers minutes to read.
	contents sync.Map
}

// report is how many blocks a host knew at a time.
type report struct {
	host, blocks int
	at           time.Time
}

func (s *servers) newSpanned(b *testing.B, name string, hosts int) *spanned {
	b.Helper()
	config, err := ipam.Parse(fmt.Appendf(nil, `{"type": "allocnet-ipam", "pool": %q, "mode": "routed", "ranges": [{"subnet": "10.96.0.0/12"}]}`, name))
	if err != nil {
		b.Fatal(err)
	}
	p := &spanned{servers: s, config: config, store: nomadstore.New(s.client(b, 0), ""), reports: make(chan report, 1024)}
	var group errgroup.Group
	group.SetLimit(8)
	for i := range hosts * blocksPerHost {
		group.Go(func() error { return p.claim(b, i) })
	}
	if err := group.Wait(); err != nil {
		b.Fatal(err)
	}
	p.claimed = hosts * blocksPerHost
	return p
}

// claim writes a block as its host does, by its number.
func (p *spanned) claim(b *testing.B, number int) error {
	node := number / blocksPerHost
	block := p.config.Slots(ipam.IPv4).At(uint64(number))
	_, err := p.store.Create(b.Context(), ipam.BlockPath(p.config.Pool, block), ipam.Encode(ipam.BlockContent{
		Pool: p.config.Pool, PoolHash: p.config.Hash(), Block: block, ClaimID: fmt.Sprintf("%032x", number), Claimed: time.Now().UTC(),
		Host: ipam.Host{
			Instance: fmt.Sprintf("%032x", node+1), NodeID: fmt.Sprintf("%08x-0000-0000-0000-000000000000", node), NodeName: fmt.Sprint("node-", node),
			MachineID: fmt.Sprintf("%032x", node), Boot: fmt.Sprintf("%08x-0000-0000-0000-000000000000", node),
		},
		Endpoint: ipam.Endpoint{Address: netip.AddrFrom4([4]byte{10, 0, byte(node >> 8), byte(node)}), LinkLocal: netip.MustParseAddr("fe80::1"), MAC: "02:00:5e:00:53:01"},
	}))
	return err
}

// watch follows the blocks as a host, until ctx ends.
func (p *spanned) watch(ctx context.Context, b *testing.B, host int) {
	store := nomadstore.New(p.client(b, host), "")
	self := ipam.Host{Instance: fmt.Sprintf("%032x", host+1)}
	followed := peers.New(peers.Options{Config: p.config, Open: func() (ipam.Store, ipam.Host, error) {
		return readsOf{store, p}, self, nil
	}})
	for {
		blocks, err := followed.Next(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil { // the servers are busy with the others
			p.failures.Add(1)
			continue
		}
		p.reports <- report{host, len(blocks.Own) + len(blocks.Remote), time.Now()}
	}
}

// readsOf counts the requests of a host of a pool.
type readsOf struct {
	ipam.Store
	pool *spanned
}

func (r readsOf) Stale() ipam.Store { return readsOf{ipam.Stale(r.Store), r.pool} }

func (r readsOf) Get(ctx context.Context, path string) (ipam.Entry, error) {
	if content, ok := r.pool.contents.Load(path); ok {
		return content.(ipam.Entry), nil
	}
	r.pool.requests.Add(1)
	return r.Store.Get(ctx, path)
}

func (r readsOf) List(ctx context.Context, prefix string, after uint64) (ipam.Listing, error) {
	r.pool.requests.Add(1)
	return r.Store.List(ctx, prefix, after)
}

// first measures the start of the first host.
func (p *spanned) first(b *testing.B) time.Duration {
	b.Helper()
	store := nomadstore.New(p.client(b, 0), "")
	begun := time.Now()
	_, err := peers.New(peers.Options{Config: p.config, Open: func() (ipam.Store, ipam.Host, error) {
		return keeping{readsOf{store, p}}, ipam.Host{}, nil
	}}).Next(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	return time.Since(begun)
}

// keeping keeps what it reads for the other hosts.
type keeping struct{ readsOf }

func (k keeping) Stale() ipam.Store { return keeping{readsOf{ipam.Stale(k.Store), k.pool}} }

func (k keeping) Get(ctx context.Context, path string) (ipam.Entry, error) {
	entry, err := k.readsOf.Get(ctx, path)
	if err == nil {
		k.pool.contents.Store(path, entry)
	}
	return entry, err
}

// await waits until all hosts know all blocks, and returns how long that took each.
func (p *spanned) await(b *testing.B, hosts int, begun time.Time) (took times) {
	b.Helper()
	known := map[int]bool{}
	timeout := time.After(2 * time.Minute)
	for len(known) < hosts {
		select {
		case r := <-p.reports:
			if r.blocks >= p.claimed && !known[r.host] {
				known[r.host] = true
				took = append(took, float64(r.at.Sub(begun))/float64(time.Millisecond))
			}
		case <-timeout:
			b.Fatalf("%d of %d hosts know %d blocks", len(known), hosts, p.claimed)
		}
	}
	return took
}

// follow lets hosts follow the blocks, while nothing changes and while blocks are claimed.
func (s *servers) follow(b *testing.B, hosts int) {
	p := s.newSpanned(b, fmt.Sprint("bench-span-", hosts), hosts)
	start, before := p.first(b), heap()
	ctx, stop := context.WithCancel(b.Context())
	var group sync.WaitGroup
	for i := range hosts {
		group.Go(func() { p.watch(ctx, b, i) })
	}
	p.await(b, hosts, time.Now())
	p.failures.Store(0)
	memory := heap() - before
	idle := p.measure(b, func() { p.drain(quiet) })
	var took times
	busy := p.measure(b, func() {
		for range changes {
			begun := time.Now()
			if err := p.claim(b, p.claimed); err != nil {
				b.Fatal(err)
			}
			p.claimed++
			took = append(took, p.await(b, hosts, begun)...)
			p.drain(time.Second)
		}
	})
	stop()
	group.Wait()
	done(b)
	b.ReportMetric(start.Seconds(), "start-s")
	took.report(b, "known")
	b.ReportMetric(float64(p.failures.Load()), "failures")
	b.ReportMetric(memory/float64(hosts)/(1<<10), "KiB/host")
	idle.report(b, "idle", hosts, quiet.Seconds(), "s")
	busy.report(b, "change", hosts, changes, "change")
}

// drain takes reports for a while.
func (p *spanned) drain(d time.Duration) {
	end := time.After(d)
	for {
		select {
		case <-p.reports:
		case <-end:
			return
		}
	}
}

// cost is what hosts cost the servers, and this machine.
type cost struct{ requests, bytes, cpu float64 }

func (p *spanned) measure(b *testing.B, do func()) cost {
	b.Helper()
	requests, sent, cpu := p.requests.Load(), p.sent(b), processorTime(b)
	do()
	return cost{float64(p.requests.Load() - requests), p.sent(b) - sent, (processorTime(b) - cpu).Seconds()}
}

// report reports what a host costs at a time.
func (c cost) report(b *testing.B, what string, hosts int, times float64, unit string) {
	b.Helper()
	per := times * float64(hosts)
	b.ReportMetric(c.requests/per, what+"-requests/host/"+unit)
	b.ReportMetric(c.bytes/per/(1<<10), what+"-KiB/host/"+unit)
	b.ReportMetric(c.cpu*1000/per, what+"-cpu-ms/host/"+unit)
}

// sent is what the servers have sent, to each other as well.
func (s *servers) sent(b *testing.B) float64 {
	b.Helper()
	var bytes uint64
	for _, m := range s.Servers {
		bytes += statistics(b, m).RxBytes
	}
	return float64(bytes)
}

// statistics are those of the bridge's port of a machine: what it sends is received there.
func statistics(b *testing.B, m *cluster.Machine) *netlink.LinkStatistics {
	b.Helper()
	port, err := netlink.LinkByName(m.Name + "-mgmt")
	if err != nil {
		b.Fatal(err)
	}
	return port.Attrs().Statistics
}

// processorTime is that of this process, which has all hosts.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func heap() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// listing measures the size of a listing of 1,000 blocks: as text, compressed, and between Nomad
// agents: hosts ask the one of their node, which asks a server. Here, a server asks the leader.
func (s *servers) listing(b *testing.B) {
	const blocks, listings = 1000, 20
	p := s.newSpanned(b, "bench-span-listing", blocks/blocksPerHost)
	leader, err := s.Leader(nil)
	if err != nil {
		b.Fatal(err)
	}
	follower := slices.IndexFunc(s.Servers, func(m *cluster.Machine) bool { return m != leader })
	store := nomadstore.New(s.client(b, follower), "")
	before := statistics(b, s.Servers[follower]).TxBytes
	for range listings {
		listing, err := store.List(b.Context(), ipam.BlocksPrefix(p.config.Pool), 0)
		if err != nil || len(listing.Entries) != blocks {
			b.Fatalf("%d blocks, want %d: %v", len(listing.Entries), blocks, err)
		}
	}
	between := float64(statistics(b, s.Servers[follower]).TxBytes - before)
	done(b)
	b.ReportMetric(between/listings/blocks, "agents-B/block")
	b.ReportMetric(s.size(b, p, "identity")/blocks, "text-B/block")
	b.ReportMetric(s.size(b, p, "gzip")/blocks, "compressed-B/block")
}

// size is that of the answer of a server to a listing.
func (s *servers) size(b *testing.B, p *spanned, encoding string) float64 {
	b.Helper()
	request, err := http.NewRequestWithContext(b.Context(), http.MethodGet, s.address(0)+"/v1/vars?per_page=1000&prefix="+ipam.BlocksPrefix(p.config.Pool), nil)
	if err != nil {
		b.Fatal(err)
	}
	request.Header.Set("Accept-Encoding", encoding)
	request.Header.Set("X-Nomad-Token", s.Token)
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		b.Fatal(err)
	}
	defer answer.Body.Close()
	size, err := io.Copy(io.Discard, answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		b.Fatalf("status %d, %v", answer.StatusCode, err)
	}
	return float64(size)
}
