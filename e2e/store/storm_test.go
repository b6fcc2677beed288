// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/allocnet/allocnet/cluster/hostid"
	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/ipam/pool"
)

const (
	hosts, perHost = 50, 20
	// stormLimit is the deadline of an allocation.
	stormLimit = 60 * time.Second
)

// tight has 50 blocks of 32 addresses with 20 usable ones: as many as are asked for. Its first
// and last block, with the addresses of the network, are outside of the range.
func tight() string {
	var exclude []string
	for i := range hosts {
		block := netip.AddrFrom4([4]byte{10, 91, byte((i + 1) / 8), byte((i + 1) % 8 * 32)})
		exclude = append(exclude, fmt.Sprintf("%q", netip.PrefixFrom(block, 29)), fmt.Sprintf("%q", netip.PrefixFrom(after(block, 8), 30)))
	}
	return `"pool": "tight", "blockSize": {"4": 27}, "ranges": [{"subnet": "10.91.0.0/21", "rangeStart": "10.91.0.32", "rangeEnd": "10.91.6.95",
		"gateway": "10.91.0.1", "exclude": [` + strings.Join(exclude, ", ") + `]}]`
}

// roomy has 1,024 blocks of 64 addresses, as a real network has.
const roomy = `"pool": "roomy", "ranges": [{"subnet": "10.92.0.0/16"}]`

func after(a netip.Addr, n int) netip.Addr {
	for range n {
		a = a.Next()
	}
	return a
}

// mostWrites is the most Raft writes until each of 50 fresh hosts has a block of a pool with
// room.
const mostWrites = 60

// storm starts 20 allocations on each of 50 hosts, all at once: on a pool with room, before
// which no host was known, and then on one that fits exactly.
func (s *server) storm(store ipam.Store) {
	var dirs []string
	for range hosts {
		dirs = append(dirs, s.TempDir())
	}
	for _, ranges := range []string{roomy, tight()} {
		counted := &counting{Store: store, writes: map[string]int{}}
		before, began := s.raftIndex(), time.Now()
		got := s.allocate(counted, ranges, dirs)
		took, writes := time.Since(began), s.raftIndex()-before
		s.requireDistinct(got)
		s.Logf("%.14s: %d addresses in %s; %d Raft writes by the server's count: %s", ranges, len(got), took.Round(time.Millisecond), writes, counted)
		// How many hosts find at the same time that there is no pool is up to the machine.
		lost := counted.writes["pool: create that failed"]
		if ranges == roomy && int(writes)-lost > mostWrites {
			s.Errorf("%d writes, %d of them of hosts that were too late to make the pool, want at most %d others", writes, lost, mostWrites)
		}
	}
}

// allocate returns the addresses that the allocations have got.
func (s *server) allocate(store ipam.Store, ranges string, dirs []string) []netip.Addr {
	s.Helper()
	got := make([]netip.Addr, hosts*perHost)
	var group errgroup.Group
	for host, dir := range dirs {
		p := s.host(store, ranges, dir, host)
		for allocation := range perHost {
			group.Go(func() error {
				ctx, cancel := context.WithTimeout(s.Context(), stormLimit)
				defer cancel()
				assigned, err := add(ctx, p, ipam.Owner{ContainerID: fmt.Sprintf("h%d-a%d", host, allocation), Interface: "eth0"})
				if err != nil || len(assigned) != 1 {
					return fmt.Errorf("host %d, allocation %d: %v, %w", host, allocation, assigned, err)
				}
				got[host*perHost+allocation] = assigned[0].Address.Addr()
				return nil
			})
		}
	}
	if err := group.Wait(); err != nil {
		s.Error(err)
	}
	return got
}

// add repeats what fails for want of an answer, as Nomad and the driver do.
func add(ctx context.Context, p *pool.Pool, owner ipam.Owner) (assigned []ipam.Assigned, err error) {
	for {
		assigned, err = p.Add(ctx, ipam.Request{Owner: owner})
		if !errors.Is(err, ipam.ErrUnavailable) || ctx.Err() != nil {
			return assigned, err
		}
	}
}

// host returns the pool of a host, which has a directory of its own. All are on one machine,
// and have its identity.
func (s *server) host(store ipam.Store, ranges, dir string, number int) *pool.Pool {
	s.Helper()
	config, err := ipam.Parse(fmt.Appendf(nil, `{"type": "allocnet-ipam", %s, "dataDir": %q, "stateDir": %q}`, ranges, filepath.Join(dir, "data"), filepath.Join(dir, "state")))
	if err != nil {
		s.Fatal(err)
	}
	id, err := hostid.Make(filepath.Join(dir, "state", "ipam"))
	if err != nil {
		s.Fatal(err)
	}
	host := id.Host
	host.NodeID, host.NodeName = fmt.Sprintf("%08d-0000-0000-0000-000000000000", number), fmt.Sprintf("n%d", number)
	return pool.New(pool.Options{Config: config, Open: func() (ipam.Store, ipam.Host, error) { return store, host, nil }})
}

func (s *server) requireDistinct(got []netip.Addr) {
	s.Helper()
	seen := map[netip.Addr]bool{}
	for _, a := range got {
		if seen[a] && a.IsValid() {
			s.Errorf("%s was given twice", a)
		}
		seen[a] = true
	}
	if delete(seen, netip.Addr{}); len(seen) != hosts*perHost {
		s.Errorf("%d addresses, want %d", len(seen), hosts*perHost)
	}
}

// counting counts the writes by what they are about.
type counting struct {
	ipam.Store
	mu     sync.Mutex
	writes map[string]int
}

func (c *counting) count(verb, path string, err error) {
	kind := "pool"
	for part, of := range map[string]string{"/b/": "block", "/a/": "address", "/nodes/": "node"} {
		if strings.Contains(path, part) {
			kind = of
		}
	}
	if err != nil {
		verb += " that failed"
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writes[kind+": "+verb]++
}

func (c *counting) String() string {
	var parts []string
	for _, kind := range slices.Sorted(maps.Keys(c.writes)) {
		parts = append(parts, fmt.Sprintf("%s %d", kind, c.writes[kind]))
	}
	return strings.Join(parts, ", ")
}

// Create implements ipam.Store.
func (c *counting) Create(ctx context.Context, path string, content []byte) (uint64, error) {
	index, err := c.Store.Create(ctx, path, content)
	c.count("create", path, err)
	return index, err
}

// Update implements ipam.Store.
func (c *counting) Update(ctx context.Context, path string, content []byte, index uint64) (uint64, error) {
	next, err := c.Store.Update(ctx, path, content, index)
	c.count("update", path, err)
	return next, err
}

// Delete implements ipam.Store.
func (c *counting) Delete(ctx context.Context, path string, index uint64) error {
	err := c.Store.Delete(ctx, path, index)
	c.count("delete", path, err)
	return err
}
