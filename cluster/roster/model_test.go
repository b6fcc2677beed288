// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package roster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/ipam/storetest"
	"github.com/allocnet/allocnet/isolation"
)

// lease is that of an address, for as long as an attachment has it.
type lease struct {
	address   netip.Addr
	host, job string
	from, to  time.Time // to is zero while it has it
}

// modelHost is a host with an agent.
type modelHost struct {
	name, instance string
	blocks         []ipam.Block
	// isPartitioned has it reach no store, and faults some requests and answers be lost. isDead: its agent does not run.
	isPartitioned, faults, isDead bool

	roster *Roster
	// known is what it has learned, which outlasts its agent.
	known []isolation.Remote
}

// model is a cluster: hosts that give out addresses, and a store.
type model struct {
	*testing.T
	seed   uint64
	random *rand.Rand
	store  *modelStore
	config *ipam.Config
	hosts  []*modelHost
	leases []*lease
	// had are the hosts that have had a block, as "BLOCK HOST": they may say what they want of it.
	had   map[string]bool
	trace []string
}

const cooldown = time.Minute

func newModel(t *testing.T, seed uint64) *model {
	config, err := ipam.Parse([]byte(`{"pool": "p", "mode": "vxlan", "ranges": [{"subnet": "10.0.0.0/24"}, {"subnet": "fd00::/64"}], "blockSize": {"4": 29, "6": 125}, "cooldown": "1m"}`))
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(seed, 0))
	m := &model{T: t, seed: seed, random: random, store: newModelStore(random), config: config, had: map[string]bool{}}
	for i := range 3 {
		h := &modelHost{name: fmt.Sprintf("h%d", i), instance: strings.Repeat(fmt.Sprint(i), 32)}
		m.hosts = append(m.hosts, h)
		m.give(config.Slots(ipam.IPv4).At(uint64(i+1)), h)
		m.give(config.Slots(ipam.IPv6).At(uint64(i+1)), h)
		m.start(h)
	}
	return m
}

// give has a block be a host's.
func (m *model) give(b ipam.Block, to *modelHost) {
	for _, h := range m.hosts {
		h.blocks = slices.DeleteFunc(h.blocks, func(other ipam.Block) bool { return other == b })
	}
	to.blocks = append(to.blocks, b)
	m.had[b.String()+" "+to.name] = true
	m.tellBlock(b, to)
}

func (m *model) tellBlock(b ipam.Block, h *modelHost) {
	m.store.set(ipam.BlockPath("p", b), ipam.Encode(ipam.BlockContent{Pool: "p", Block: b, Host: ipam.Host{Instance: h.instance, NodeName: h.name}}))
}

// start starts the agent of a host.
func (m *model) start(h *modelHost) {
	h.isDead = false
	h.roster = New(Options{
		Config: m.config,
		Open: func() (ipam.Store, ipam.Host, error) {
			return modelClient{m.store, h, false}, ipam.Host{Instance: h.instance, NodeName: h.name}, nil
		},
		Own:    func(context.Context) ([]isolation.Member, error) { return m.own(h), nil },
		Routes: func() (map[netip.Prefix]string, error) { return nil, nil },
		Known:  func() ([]isolation.Remote, error) { return h.known, nil },
		Learn:  func(_ context.Context, all []isolation.Remote, _ time.Time) error { return m.learned(h, all) },
	})
	h.roster.view.Reads = 1 // a schedule is the same each time
}

func (m *model) own(h *modelHost) (all []isolation.Member) {
	for _, l := range m.leases {
		if l.host == h.name && l.to.IsZero() {
			all = append(all, isolation.Member{Network: "net", Namespace: "default", Job: l.job, Addresses: []netip.Addr{l.address}, Link: "br0"})
		}
	}
	return all
}

// learned checks what a host has learned: it was so when it was confirmed, or after that, and that is not long ago.
func (m *model) learned(h *modelHost, all []isolation.Remote) error {
	h.known = slices.Clone(all)
	now := time.Now()
	for _, r := range all {
		if r.Job == "" {
			continue
		}
		if age := now.Sub(r.Confirmed); age > isolation.MostUnconfirmed {
			m.fail("%s knows %s as job %s, which was confirmed %s ago", h.name, r.Addresses, r.Job, age)
		}
		for _, a := range r.Addresses {
			was := slices.ContainsFunc(m.leases, func(l *lease) bool {
				return l.address == a && l.job == r.Job && l.host == r.Host && (l.to.IsZero() || !l.to.Before(r.Confirmed))
			})
			if block, ok := m.config.BlockOf(a); ok && r.Job == liar && m.had[block.String()+" "+r.Host] {
				continue
			}
			if !was || r.Host == h.name {
				m.fail("%s knows %s as job %s on %s, which was not so at %s", h.name, a, r.Job, r.Host, r.Confirmed)
			}
		}
	}
	return nil
}

func (m *model) fail(format string, args ...any) {
	m.Helper()
	m.Fatalf("seed %d: %s\n%s", m.seed, fmt.Sprintf(format, args...), strings.Join(m.trace, "\n"))
}

// attach gives an address to a job: one that was free for longest, and not within the cooldown.
func (m *model) attach(h *modelHost) {
	var best netip.Addr
	oldest := time.Now().Add(-cooldown)
	for _, b := range h.blocks {
		for offset := range m.config.Offsets(b) {
			a := ipam.At(b, offset)
			freed := time.Time{}
			isUsed := false
			for _, l := range m.leases {
				if l.address == a {
					freed, isUsed = l.to, isUsed || l.to.IsZero()
				}
			}
			if !isUsed && !freed.After(oldest) {
				best, oldest = a, freed
			}
		}
	}
	if best.IsValid() {
		m.leases = append(m.leases, &lease{address: best, host: h.name, job: fmt.Sprintf("job%d", len(m.leases)), from: time.Now()})
	}
}

func (m *model) detach(h *modelHost) {
	for _, i := range m.random.Perm(len(m.leases)) {
		if l := m.leases[i]; l.host == h.name && l.to.IsZero() {
			l.to = time.Now()
			return
		}
	}
}

// liar is a job that no host has.
const liar = "liar"

// lie has a host say that it has attachments with addresses of another one's block, in the other's name and in its own.
func (m *model) lie(h *modelHost) {
	for _, other := range m.hosts {
		if other == h || len(other.blocks) == 0 {
			continue
		}
		piece := other.blocks[0]
		m.store.set(ipam.MembersPath("p", piece), ipam.Encode(ipam.MembersContent{
			Pool: "p", Instance: h.instance, Node: h.name, Piece: piece, Written: time.Now(),
			Groups: []ipam.MemberGroup{{Network: "net", Level: "none", Job: liar, Addresses: []netip.Addr{ipam.At(piece, 3)}}},
		}))
	}
}

// step does something at random.
func (m *model) step() {
	h := m.hosts[m.random.IntN(len(m.hosts))]
	switch what := m.random.IntN(24); {
	case what < 5:
		m.note("attach on %s", h.name)
		m.attach(h)
	case what < 9:
		m.note("detach on %s", h.name)
		m.detach(h)
	case what < 17:
		if !h.isDead {
			m.note("round of %s: %v", h.name, h.roster.round(m.Context()))
		}
	case what == 17:
		h.isPartitioned = !h.isPartitioned
		m.note("%s is partitioned: %t", h.name, h.isPartitioned)
	case what == 18:
		h.faults = !h.faults
		m.note("%s has faults: %t", h.name, h.faults)
	case what == 19:
		if h.isDead = !h.isDead; !h.isDead {
			m.start(h)
		}
		m.note("the agent of %s is dead: %t", h.name, h.isDead)
	case what == 20:
		m.note("time goes by")
		time.Sleep(time.Duration(m.random.Int64N(int64(8 * time.Hour))))
	case what == 21:
		m.note("the store is restored")
		m.restore()
	case what == 22:
		m.note("%s lies", h.name)
		m.lie(h)
	default:
		m.handOver(h)
	}
	time.Sleep(time.Duration(m.random.Int64N(int64(10 * time.Second))))
}

// restore has the store be restored from a snapshot. Hosts claim their blocks again. They notice it because the store has not answered for a while, or by
// its index.
func (m *model) restore() {
	m.store.restore(m.random.IntN(6))
	for _, h := range m.hosts {
		for _, b := range h.blocks {
			e := m.store.now()[ipam.BlockPath("p", b)]
			if content, err := ipam.DecodeBlock(e.Content, m.config); err != nil || content.Host.Instance != h.instance {
				m.tellBlock(b, h)
			}
		}
	}
	for _, h := range m.hosts {
		isLower := m.store.index < h.roster.view.Newest()
		if !isLower || m.random.IntN(2) == 0 || h.roster.list(m.Context(), modelClient{m.store, h, false}) != nil {
			h.roster.view.Doubt()
		}
	}
}

// handOver has another host have a block of a host on which nothing runs.
func (m *model) handOver(h *modelHost) {
	if len(h.blocks) < 2 {
		return
	}
	for _, l := range m.leases {
		if l.host == h.name && l.to.IsZero() {
			l.to = time.Now()
		}
	}
	time.Sleep(cooldown)
	to := m.hosts[m.random.IntN(len(m.hosts))]
	m.note("%s of %s is handed to %s", h.blocks[0], h.name, to.name)
	m.give(h.blocks[0], to)
}

func (m *model) note(format string, args ...any) {
	m.trace = append(m.trace, fmt.Sprintf("%s %s", time.Now().Format(time.DateTime), fmt.Sprintf(format, args...)))
}

// requireAllKnown: when nothing fails any more, all hosts know what there is and nothing else, before an address is given out again.
func (m *model) requireAllKnown() {
	m.Helper()
	for _, h := range m.hosts {
		h.isPartitioned, h.faults = false, false
		if h.isDead {
			m.start(h)
		}
	}
	for range 5 { // each reads some of the entries in doubt
		for _, h := range m.hosts {
			if err := h.roster.round(m.Context()); err != nil {
				m.note("round of %s: %v", h.name, err)
			}
		}
	}
	m.requireKnown()
	changed := time.Now()
	for _, h := range m.hosts {
		m.note("at rest, detach and attach on %s", h.name)
		m.detach(h)
		m.attach(h)
	}
	for range 2 {
		for _, h := range m.hosts {
			h.roster.Kick()
			if err := h.roster.round(m.Context()); err != nil {
				m.fail("round of %s: %v", h.name, err)
			}
		}
	}
	m.requireKnown()
	if took := time.Since(changed); took >= cooldown {
		m.fail("it took %s", took)
	}
}

func (m *model) requireKnown() {
	m.Helper()
	for _, h := range m.hosts {
		var want, got []string
		for _, l := range m.leases {
			if l.to.IsZero() && l.host != h.name {
				want = append(want, fmt.Sprint(l.address, " ", l.job, " ", l.host))
			}
		}
		for _, r := range h.known {
			for _, a := range r.Addresses {
				got = append(got, fmt.Sprint(a, " ", r.Job, " ", r.Host))
			}
		}
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			m.fail("%s knows\n%s\nwant\n%s", h.name, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// schedules is how many there are in a run unless the environment says so.
const schedules = 500

// TestModel: whatever fails, a host knows of no attachment on another host that was not there when it was confirmed, and of no job that was not confirmed
// for long; what a host says of another one's addresses is not known. When nothing fails any more, all is known, and what is gone is not, before its
// address is given out again.
func TestModel(t *testing.T) {
	first, count := storetest.Schedules(t, schedules)
	for seed := first; seed < first+count; seed++ {
		synctest.Test(t, func(t *testing.T) {
			m := newModel(t, seed)
			for range 60 {
				m.step()
			}
			m.requireAllKnown()
		})
		if t.Failed() {
			return
		}
	}
}
