// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package route

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// chance makes random states.
type chance struct{ *rand.Rand }

func (c chance) one(n int) bool { return c.IntN(n) == 0 }

func (c chance) block() netip.Prefix {
	if c.one(2) {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 60, 0, byte(c.IntN(4) * 64)}), 26)
	}
	a := cidr("fd60::/112").Addr().As16()
	a[15] = byte(c.IntN(4) * 64)
	return netip.PrefixFrom(netip.AddrFrom16(a), 122)
}

func (c chance) address() netip.Addr {
	if c.one(4) {
		return ip(fmt.Sprintf("198.51.100.%d", 2+c.IntN(3)))
	}
	return ip(fmt.Sprintf("192.0.2.%d", 2+c.IntN(4)))
}

func (c chance) mac() string { return fmt.Sprintf("02:00:00:00:00:%02x", 1+c.IntN(5)) }

func (c chance) target() Target {
	e := ipam.Endpoint{Address: c.address(), MAC: c.mac()}
	if !c.one(3) {
		e.LinkLocal = linkLocalOf(e.MAC)
	}
	if c.one(8) {
		e.MAC = ""
	}
	if c.one(10) {
		e.Address = ip("192.0.2.1") // this host's
	}
	return Target{Block: c.block(), Node: "n", Endpoint: e}
}

func (c chance) targets() []Target {
	list := make([]Target, c.IntN(7))
	for i := range list {
		list[i] = c.target()
	}
	return list
}

// entry is a route in the pool, ours or not.
func (c chance) entry() entry {
	b := c.block()
	e := entryTo(b, next{via: c.address(), device: []string{"eth0", "vx-net"}[c.IntN(2)], onlink: c.one(2)})
	if c.one(4) {
		e.ours, e.device = false, "eth0" // the kernel removes routes with their interface
	}
	if c.one(5) {
		e.metric += 10
	}
	if c.one(6) {
		e = unclaimed(b)
	}
	return e
}

// spoil changes what the kernel has, as other programs do.
func (c chance) spoil(f *fake) {
	for range c.IntN(4) {
		switch c.IntN(7) {
		case 0:
			_ = f.doDevice(remove, device{name: "vx-net"})
		case 1:
			if l := f.link("vx-net"); l != nil {
				l.mac = c.mac()
				f.forget("vx-net", false)
			}
		case 2:
			if l := f.link("vx-net"); l != nil {
				l.id, l.up, l.mtu = l.id+c.IntN(2), c.one(2), 1400+c.IntN(2)*50
			}
		case 3:
			f.routes = slices.DeleteFunc(f.routes, func(entry) bool { return c.one(2) })
		case 4:
			if f.link("vx-net") != nil {
				f.forwards = append(f.forwards, forward{"vx-net", c.mac(), c.address()})
				f.neighbours = append(f.neighbours, neighbour{"vx-net", c.address(), c.mac()})
			}
		default:
			if e := c.entry(); f.link(e.device) != nil && !slices.ContainsFunc(f.routes, func(o entry) bool { return o.place() == e.place() }) {
				f.routes = append(f.routes, e)
			}
		}
	}
}

// interrupted calls Apply in a process that may be killed after any change.
func interrupted(table *Table, p Pool, own []netip.Prefix, targets []Target, f *fake, left int) (report Report, err error, done bool) {
	f.left = left
	defer func() {
		f.left = -1
		if r := recover(); r != nil {
			if _, ok := r.(killed); !ok {
				panic(r)
			}
		}
	}()
	report, err = table.Apply(p, own, targets)
	return report, err, true
}

// TestProperties: from any state, with kills at any change, Apply leads to the same state: one that
// it does not change any more, in which each accepted target has its route, and others what they
// had. What was right was never removed.
func TestProperties(t *testing.T) {
	seed := sandbox.Number("ALLOCNET_SEED", 1)
	for round := range 200 {
		c := chance{rand.New(rand.NewPCG(seed, uint64(round)))}
		f, p := newFake(), testPool([]ipam.Mode{ipam.ModeRouted, ipam.ModeVXLAN, ipam.ModeAuto}[c.IntN(3)])
		for i := range 3 {
			f.hops[ip(fmt.Sprintf("198.51.100.%d", 2+i))] = behindRouter
		}
		o := Options{Dir: t.TempDir()}
		table := newTable(o, f)
		for range 4 {
			c.spoil(f)
			if _, _, err := table.Device(p, local); err != nil {
				t.Fatal(err)
			}
			c.spoil(f)
			if !checkApply(t, c, f, p, o) {
				t.Fatalf("round %d, ALLOCNET_SEED=%d", round, seed)
			}
		}
		foreign := f.foreignState()
		if err := newTable(o, f).Remove(p); err != nil || f.state() != "" || f.foreignState() != foreign {
			t.Fatalf("round %d, ALLOCNET_SEED=%d: %v, left:\n%s", round, seed, err, f.state())
		}
	}
}

func checkApply(t *testing.T, c chance, f *fake, p Pool, o Options) bool {
	t.Helper()
	own, targets := []netip.Prefix{c.block()}, c.targets()
	foreign, before := f.foreignState(), slices.Clone(f.routes)
	f.log = nil
	table, attempts := newTable(o, f), 0
	for ; attempts < 5; attempts++ {
		if c.one(2) {
			table = newTable(o, f)
		}
		table.locals[p.Name] = local
		_, err, done := interrupted(table, p, own, targets, f, c.IntN(12))
		if done && err == nil {
			break
		}
		if err != nil {
			t.Error(err)
		}
	}
	log := f.log
	report, err, _ := interrupted(table, p, own, targets, f, -1)
	again, againErr, _ := interrupted(table, p, own, targets, f, 0)
	if err != nil || againErr != nil || again.Added+again.Replaced+again.Removed != 0 {
		t.Errorf("%v, %v, the second time: %+v", err, againErr, again)
	}
	if f.foreignState() != foreign {
		t.Errorf("others had:\n%s\nand have:\n%s", foreign, f.foreignState())
	}
	return requireRoutes(t, f, report) && requireKept(t, f, before, log) && !t.Failed()
}

// requireRoutes compares the kernel's routes with the report.
func requireRoutes(t *testing.T, f *fake, r Report) bool {
	t.Helper()
	want := map[string]bool{}
	for _, s := range testPool("").Subnets {
		want[unclaimed(s).String()] = true
	}
	for _, r := range r.Routes {
		if r.State == Installed {
			want[fmt.Sprintf("route %s via %s dev %s", r.Block, r.Via, r.Device)] = true
		}
		if r.State == Failed {
			t.Errorf("%+v", r)
		}
	}
	var have []string
	for _, e := range f.routes {
		if e.ours {
			have = append(have, e.String())
		}
	}
	slices.Sort(have)
	if wanted := slices.Sorted(maps.Keys(want)); !slices.Equal(have, wanted) {
		t.Errorf("want %s\nhave %s", strings.Join(wanted, "\n"), strings.Join(have, "\n"))
		return false
	}
	return true
}

// requireKept: a route that is there before and after was never changed, unless its device was.
func requireKept(t *testing.T, f *fake, before []entry, log []change) bool {
	t.Helper()
	remade := slices.ContainsFunc(log, func(c change) bool {
		_, ok := c.object.(device)
		return ok && c.verb == remove
	})
	for _, c := range log {
		if e, ok := c.object.(entry); ok && !remade && slices.Contains(before, e) && slices.Contains(f.routes, e) {
			t.Errorf("%s, which was right", c)
			return false
		}
	}
	return true
}
