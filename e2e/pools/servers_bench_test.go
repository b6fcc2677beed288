// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package pools

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/ipam/nomadstore"
)

// writers is the number of hosts that start and stop allocations at a time, perWriter each.
const writers, perWriter = 10, 20

// assigner is a host of a design: it assigns addresses that no other host assigns.
type assigner interface {
	add(b *testing.B, id string) (netip.Addr, error)
	del(b *testing.B, id string) error
}

// subnet has more addresses than the allocations of a benchmark need.
var subnet = netip.MustParsePrefix("10.93.0.0/16")

// address returns the address of the subnet with a number.
func address(number int) netip.Addr {
	bytes := subnet.Addr().As4()
	bytes[2], bytes[3] = byte(number>>8), byte(number)
	return netip.AddrFrom4(bytes)
}

// onePerPool has one variable for all addresses, which is read, changed and compared-and-set.
type onePerPool struct {
	store ipam.Store
	path  string
}

// change changes the owners by address until no other host has changed them first.
func (o *onePerPool) change(b *testing.B, do func(owners map[string]string)) error {
	for {
		entry, err := o.store.Get(b.Context(), o.path)
		if err != nil {
			return err
		}
		owners := map[string]string{}
		if err := json.Unmarshal(entry.Content, &owners); err != nil {
			return err
		}
		do(owners)
		content, err := json.Marshal(owners)
		if err != nil {
			return err
		}
		if _, err = o.store.Update(b.Context(), o.path, content, entry.Index); !errors.Is(err, ipam.ErrConflict) {
			return err
		}
	}
}

func (o *onePerPool) add(b *testing.B, id string) (found netip.Addr, err error) {
	err = o.change(b, func(owners map[string]string) {
		for i := 1; ; i++ { // the first that is free
			found = address(i)
			if _, taken := owners[found.String()]; !taken {
				owners[found.String()] = id
				return
			}
		}
	})
	return found, err
}

func (o *onePerPool) del(b *testing.B, id string) error {
	return o.change(b, func(owners map[string]string) {
		for address, owner := range owners {
			if owner == id {
				delete(owners, address)
			}
		}
	})
}

// onePerAddress has a variable for each address, which is created. Hosts choose free ones at
// random, so that they hardly ever choose the same.
type onePerAddress struct {
	store  ipam.Store
	prefix string

	mu sync.Mutex // guards made
	// made are the variables by owner.
	made map[string]ipam.Entry
}

func (o *onePerAddress) add(b *testing.B, id string) (netip.Addr, error) {
	for {
		listing, err := o.store.List(b.Context(), o.prefix, 0)
		if err != nil {
			return netip.Addr{}, err
		}
		taken := map[string]bool{}
		for _, entry := range listing.Entries {
			taken[entry.Path] = true
		}
		found := address(1 + rand.IntN(1<<16-2))
		path := o.prefix + fmt.Sprintf("%08x", found.As4())
		if taken[path] {
			continue
		}
		index, err := o.store.Create(b.Context(), path, []byte(id))
		if errors.Is(err, ipam.ErrConflict) {
			continue
		}
		o.mu.Lock()
		o.made[id] = ipam.Entry{Path: path, Index: index}
		o.mu.Unlock()
		return found, err
	}
}

func (o *onePerAddress) del(b *testing.B, id string) error {
	o.mu.Lock()
	entry := o.made[id]
	o.mu.Unlock()
	return o.store.Delete(b.Context(), entry.Path, entry.Index)
}

// BenchmarkIPAMServers measures what addresses cost the three servers of a cluster.
func BenchmarkIPAMServers(b *testing.B) {
	s := startServers(b)
	b.Run("variable=pool", func(b *testing.B) {
		path := "allocnet/ipam/1/bench-pool/all"
		if _, err := nomadstore.New(s.client(b, 0), "").Create(b.Context(), path, []byte("{}")); err != nil {
			b.Fatal(err)
		}
		s.measure(b, func(number int) assigner { return &onePerPool{nomadstore.New(s.client(b, number), ""), path} })
	})
	b.Run("variable=address", func(b *testing.B) {
		s.measure(b, func(number int) assigner {
			return &onePerAddress{store: nomadstore.New(s.client(b, number), ""), prefix: "allocnet/ipam/1/bench-address/a/", made: map[string]ipam.Entry{}}
		})
	})
	b.Run("variable=block", func(b *testing.B) {
		s.measure(b, func(int) assigner {
			return s.newHost(b, `"pool": "bench-block", "ranges": [{"subnet": "10.93.0.0/16"}]`)
		})
	})
	b.Run("claim", s.claims)
	b.Run("nodes=50", s.writes)
}

// measure starts and stops the allocations of all writers.
func (s *servers) measure(b *testing.B, host func(number int) assigner) {
	var hosts []assigner
	for i := range writers {
		hosts = append(hosts, host(i))
	}
	before := s.raftIndex(b)
	adds, got := s.each(b, hosts, func(h assigner, id string) (netip.Addr, error) { return h.add(b, id) })
	between := s.raftIndex(b)
	requireDistinct(b, got)
	dels, _ := s.each(b, hosts, func(h assigner, id string) (netip.Addr, error) { return netip.Addr{}, h.del(b, id) })
	after := s.raftIndex(b)
	done(b)
	adds.report(b, "add")
	dels.report(b, "del")
	b.ReportMetric(float64(between-before)/(writers*perWriter), "raft-writes/add")
	b.ReportMetric(float64(after-between)/(writers*perWriter), "raft-writes/del")
}

// each calls do for the allocations of all hosts, one after the other on each host.
func (s *servers) each(b *testing.B, hosts []assigner, do func(h assigner, id string) (netip.Addr, error)) (took times, got []netip.Addr) {
	b.Helper()
	var mu sync.Mutex
	var group errgroup.Group
	for i, h := range hosts {
		group.Go(func() error {
			for j := range perWriter {
				begun := time.Now()
				a, err := do(h, fmt.Sprintf("h%d-a%d", i, j))
				if err != nil {
					return fmt.Errorf("host %d, allocation %d: %w", i, j, err)
				}
				mu.Lock()
				took.add(begun)
				got = append(got, a)
				mu.Unlock()
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		b.Fatal(err)
	}
	return took, got
}

func requireDistinct(b *testing.B, got []netip.Addr) {
	b.Helper()
	seen := map[netip.Addr]bool{}
	for _, a := range got {
		if seen[a] || !subnet.Contains(a) {
			b.Fatalf("%s was assigned twice, or is not of %s", a, subnet)
		}
		seen[a] = true
	}
}
