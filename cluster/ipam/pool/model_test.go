// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package pool

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/ipam/storetest"
)

// modelConfig has ten blocks of two families, and reserved addresses.
const modelConfig = `"cooldown": "0s", "sticky": true, "blockSize": {"4": 29, "6": 125}, "reserved": ["10.0.0.8/29"],
	"ranges": [{"subnet": "10.0.0.0/26"}, {"subnet": "fd00::/122"}]`

// model are hosts that use one pool, and what their runtimes know.
type model struct {
	*testing.T
	random *rand.Rand
	store  *faultyStore
	hosts  []*host
	// living are the addresses in the namespaces of each host: from when ADD has returned them
	// until DEL is called.
	living []map[string][]netip.Addr
	// added counts the attachments that got addresses.
	added int
	next  int
}

func newModel(t *testing.T, seed uint64) *model {
	m := &model{T: t, random: rand.New(rand.NewPCG(seed, 0))}
	m.store = &faultyStore{Store: &storetest.Fake{}, random: m.random, faults: 15}
	for i := range 3 {
		h := newHost(t, m.store, i, modelConfig)
		h.clock = time.Now() // blocks tell the time by the kernel's clock
		m.hosts, m.living = append(m.hosts, h), append(m.living, map[string][]netip.Addr{})
	}
	return m
}

// process runs a process of a host, which may be killed. It returns its error.
func (m *model) process(h *host, run func(ctx context.Context) error) (err error) {
	defer func() {
		if r := recover(); r == any(errKilled) {
			err = errKilled
		} else if r != nil {
			panic(r)
		}
	}()
	h.restart()
	return run(m.Context())
}

// step lets one host do something.
func (m *model) step() {
	m.store.arrive(false)
	i := m.random.IntN(len(m.hosts))
	h := m.hosts[i]
	h.clock = h.clock.Add(time.Second)
	switch n := m.random.IntN(20); {
	case n < 8:
		m.add(i)
	case n < 14:
		m.del(i)
	case n == 14:
		m.gc(i)
	case n == 15:
		_ = m.process(h, func(ctx context.Context) error { _, err := h.Maintain(ctx); return err })
	case n == 16:
		_ = m.process(h, func(ctx context.Context) error { _, err := h.blocks.Release(ctx, 0, 0); return err })
	default:
		_ = m.process(h, func(ctx context.Context) error { _, err := h.Verify(ctx, 0); return err })
	}
}

// add is ADD as a runtime calls it: after a failure it calls DEL, sooner or later.
func (m *model) add(i int) {
	h := m.hosts[i]
	m.next++
	id := fmt.Sprint("c", m.next)
	r := ipam.Request{Owner: owner(id), Job: ipam.Job{Namespace: "default", Job: "web", Group: "g", Allocation: id}}
	if m.random.IntN(3) == 0 {
		r.Job.Key = fmt.Sprint(m.random.IntN(3))
	}
	var got []ipam.Assigned
	err := m.process(h, func(ctx context.Context) (err error) {
		ctx, stop := context.WithTimeout(ctx, 50*time.Millisecond) // sticky addresses are waited for
		defer stop()
		got, err = h.Add(ctx, r)
		return err
	})
	switch {
	case err == nil:
		m.started(i, id, got)
	case m.random.IntN(2) == 0:
		_ = m.process(h, func(ctx context.Context) error { return h.Del(ctx, owner(id)) })
	}
}

// started notes the addresses of a namespace, and requires that no other has one of them.
func (m *model) started(i int, id string, got []ipam.Assigned) {
	m.added++
	if len(got) != 2 {
		m.Errorf("%s of host %d has %v, want an address of each family", id, i, got)
	}
	for _, a := range got {
		for j, namespaces := range m.living {
			for other, addresses := range namespaces {
				for _, b := range addresses {
					if b == a.Address.Addr() {
						m.Errorf("%s is in the namespaces %s of host %d and %s of host %d", b, id, i, other, j)
					}
				}
			}
		}
		m.living[i][id] = append(m.living[i][id], a.Address.Addr())
	}
}

func (m *model) del(i int) {
	for id := range m.living[i] {
		delete(m.living[i], id)
		_ = m.process(m.hosts[i], func(ctx context.Context) error { return m.hosts[i].Del(ctx, owner(id)) })
		return
	}
}

func (m *model) gc(i int) {
	_ = m.process(m.hosts[i], func(ctx context.Context) error {
		leases, err := m.hosts[i].Leases(ctx)
		for _, l := range leases {
			if _, valid := m.living[i][l.Owner.ContainerID]; !valid {
				err = errors.Join(err, m.hosts[i].Del(ctx, l.Owner))
			}
		}
		return err
	})
}

// requireOwned requires that the entry of each address in a namespace is of its host.
func (m *model) requireOwned() {
	for i, namespaces := range m.living {
		for id, addresses := range namespaces {
			for _, a := range addresses {
				if got := m.ownerOf(a); got != m.instance(i) {
					m.Errorf("%s in the namespace %s of host %d is governed by an entry of %q", a, id, i, got)
				}
			}
		}
	}
}

func (m *model) instance(i int) string { return fmt.Sprintf("%032x", i+1) }

// ownerOf returns the instance that the store has for an address.
func (m *model) ownerOf(a netip.Addr) string {
	c := m.hosts[0].options.Config
	if c.IsReserved(a) {
		entry, err := m.store.Store.Get(m.Context(), ipam.AddressPath("p", a))
		content, errContent := ipam.DecodeAddress(entry.Content, c)
		if err != nil || errContent != nil || content.State != ipam.Held {
			return ""
		}
		return content.Host.Instance
	}
	b, _ := c.BlockOf(a)
	entry, err := m.store.Store.Get(m.Context(), ipam.BlockPath("p", b))
	content, errContent := ipam.DecodeBlock(entry.Content, c)
	if err != nil || errContent != nil {
		return ""
	}
	return content.Host.Instance
}

// finish ends all attachments, without faults, and requires that nothing remains.
func (m *model) finish() {
	m.store.faults = 0
	m.store.arrive(true)
	for i, h := range m.hosts {
		h.clock = h.clock.Add(time.Hour) // late requests have settled
		m.living[i] = map[string][]netip.Addr{}
		m.gc(i)
		m.verify(h)
		h.forgetRegistration()
		m.verify(h) // it gives back what a killed process was about to take
		h.clock = h.clock.Add(time.Hour)
		m.verify(h)
		h.clock = time.Now()
		m.requireNo(m.process(h, func(ctx context.Context) error { _, err := h.release(ctx); return err }))
		m.verify(h)
		m.requireNothing(h)
	}
	overview, err := m.hosts[0].Show(m.Context())
	if err != nil || len(overview.Blocks)+len(overview.Unknown) > 0 {
		m.Errorf("the store has %+v, %v", overview, err)
	}
	for _, a := range overview.Addresses {
		if a.State != ipam.Free {
			m.Errorf("%s is held: %+v", a.Address, a)
		}
	}
}

func (m *model) verify(h *host) {
	m.Helper()
	m.requireNo(m.process(h, func(ctx context.Context) error { _, err := h.Verify(ctx, 0); return err }))
}

func (m *model) requireNo(err error) {
	m.Helper()
	if err != nil {
		m.Error(err)
	}
}

// requireNothing requires that a host has no lease, no block and no history.
func (m *model) requireNothing(h *host) {
	usage, err := h.Usage(m.Context())
	if err != nil || len(usage.Blocks)+len(usage.Reserved) > 0 {
		m.Errorf("host %s has %+v, %v", h.dir, usage, err)
	}
	for _, dir := range []string{"leases/p", "state/ipam/pools/p/freed", "state/ipam/pools/p/reserved"} {
		files, _ := os.ReadDir(filepath.Join(h.dir, dir))
		for _, f := range files {
			if _, err := netip.ParseAddr(f.Name()); err == nil || dir != "leases/p" && strings.HasPrefix(f.Name(), "0a") {
				m.Errorf("%s/%s is left", dir, f.Name())
			}
		}
	}
}

// TestModel: under random faults of the store and kills of processes no address is in two
// living namespaces, each is governed by an entry of its host, and when all attachments have
// ended nothing remains.
func TestModel(t *testing.T) {
	first, _ := storetest.Schedules(t, 8)
	added := 0
	for i := range uint64(8) {
		t.Run(fmt.Sprint("seed ", first+i), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // where a wait takes no time, and work has all it needs
				m := newModel(t, first+i)
				for range 60 {
					m.step()
					m.requireOwned()
				}
				m.finish()
				added += m.added
			})
		})
	}
	if added < 20 {
		t.Errorf("only %d attachments got addresses: the test proves little", added)
	}
}
