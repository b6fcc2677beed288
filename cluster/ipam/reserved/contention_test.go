// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package reserved

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/allocnet/allocnet/cluster/ipam"
)

// TestFull: an allocation without a sticky address gets no other, and the error says what uses the
// addresses, but no job of another namespace.
func TestFull(t *testing.T) {
	c := newCluster(t)
	h := c.newHost(1)
	secret := sticky("s", "secret", "0")
	secret.Job.Namespace = "other"
	h.mustTake(secret, "", 4)
	h.mustTake(sticky("a", "web", "0"), "", 4)
	h.mustTake(sticky("b", "web", "1"), "", 4)
	h.mustFree("b")
	all, err := h.list(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	rest := slices.DeleteFunc(addressesOf("10.0.0.16/30"), func(a netip.Addr) bool {
		return slices.ContainsFunc(all, func(used ipam.AddressContent) bool { return used.Address == a })
	})
	if err := h.Reserve(t.Context(), rest[0], ipam.Job{Namespace: "default", Job: "db"}); err != nil {
		t.Fatal(err)
	}
	h.mustFail(sticky("d", "web", "2"), ipam.ErrExhausted,
		`no free address: reserved [10.0.0.16/30] of pool test has no address for key "2" of job "web": of 4, 1 held by jobs of other namespaces, `+
			`1 held by job "web", 1 reserved for job "db", 1 freed less than the cooldown of 1m0s ago; append a prefix to reserved, stop allocations, `+
			`or give up what is reserved in vain: allocnet ipam unreserve test ADDRESS`, 4)
	h.mustTake(sticky("e", "web", "2"), "", 6)
	c.pass(time.Minute)
	h.mustTake(sticky("d", "web", "2"), "", 4)
}

// addressesOf returns the addresses of a prefix.
func addressesOf(text string) []netip.Addr {
	prefix := netip.MustParsePrefix(text)
	var all []netip.Addr
	for a := prefix.Addr(); prefix.Contains(a); a = a.Next() {
		all = append(all, a)
	}
	return all
}

// TestFullByLeases: what another program leases on this host is no reason to say that the job
// asks for what it can never have.
func TestFullByLeases(t *testing.T) {
	h := newCluster(t).newHost(1)
	for _, a := range addressesOf("10.0.0.16/30") {
		h.leases.owners[a] = attachment("another")
	}
	h.mustFail(sticky("a", "web", "0"), ipam.ErrExhausted, "4 leased on this host by others", 4)
	h.mustFail(allocation("a", "web", "10.0.0.17"), ipam.ErrInvalid, "another container has it on this host")
}

// TestTwoHostsAtTheLimit: of two hosts that each take the last address that a job may have, one
// gives it back. No namespace had it, so that another job has it at once.
func TestTwoHostsAtTheLimit(t *testing.T) {
	config := newCluster(t).config
	first := func(key string) netip.Addr { return sequence(config, sticky("", "web", key).Job, 4)[0] }
	other := 2
	for first(strconv.Itoa(other)) == first("1") {
		other++
	}
	address := first(strconv.Itoa(other)).String()
	for name, request := range map[string]ipam.Request{"sticky": sticky("a", "web", strconv.Itoa(other)), "requested": allocation("a", "web", address)} {
		c := newCluster(t, `, "maxReservedPerJob": 1`)
		one, two := c.newHost(1), c.newHost(2)
		var taken string
		one.before = func() { taken = two.mustTake(sticky("b", "web", "1"), "", 4) }
		one.mustFail(request, ipam.ErrExhausted, "at the same time", 4)
		if got, want := heldOnly(c.dump()), taken+" held web/1 b"; got != want {
			t.Errorf("%s: held are %q, want %q", name, got, want)
		}
		one.mustHaveRecords(0)
		one.mustFail(request, ipam.ErrInvalid, "maxReservedPerJob is 1", 4)
		c.newHost(3).mustTake(allocation("d", "db", address), address)
	}
}

// heldOnly returns those lines of a dump that are not of free addresses.
func heldOnly(dump string) string {
	lines := slices.DeleteFunc(strings.Split(dump, "\n"), func(line string) bool { return strings.Contains(line, " free ") })
	return strings.Join(lines, "\n")
}

// TestTwoHostsWithAKey: of two allocations with one key, one has the address, whether their
// hosts take the same one or two.
func TestTwoHostsWithAKey(t *testing.T) {
	for _, same := range []bool{true, false} {
		c := newCluster(t)
		one, two := c.newHost(1), c.newHost(2)
		first := sequence(c.config, sticky("a", "web", "0").Job, 4)[0]
		if !same {
			two.leases.owners[first] = attachment("another")
		}
		var taken string
		one.before = func() { taken = two.mustTake(sticky("b", "web", "0"), "", 4) }
		one.mustFail(sticky("a", "web", "0"), ipam.ErrExhausted, "is not free yet", 4)
		if got, want := heldOnly(c.dump()), taken+" held web/0 b"; got != want {
			t.Errorf("the same address %v: held are %q, want %q", same, got, want)
		}
		if got := taken == first.String(); got != same {
			t.Errorf("the second host has %s, and the first address is %s", taken, first)
		}
	}
}

// TestWaiting: an address is asked for again when it can be free, and the configuration is
// compared once.
func TestWaiting(t *testing.T) {
	c := newCluster(t)
	one, two := c.newHost(1), c.newHost(2)
	address := one.mustTake(sticky("a", "web", "0"), "", 4)
	var slept []time.Duration
	two.sleep = func(_ context.Context, d time.Duration) error {
		slept = append(slept, d)
		if c.pass(d); len(slept) == 2 {
			one.mustFree("a")
		}
		if len(slept) > 3 {
			return errors.New("it waits too often")
		}
		return nil
	}
	c.guard.agreed = 0
	two.mustTake(sticky("b", "web", "0"), address, 4)
	if want := []time.Duration{pollInterval, pollInterval, quiet}; !slices.Equal(slept, want) {
		t.Errorf("it waits for %s, want %s", slept, want)
	}
	if c.guard.agreed != 1 {
		t.Errorf("the configuration was compared %d times", c.guard.agreed)
	}
}

// TestKeptNoMore: an address that was kept for a key when it was looked at, and is not when it is taken,
// is one like any other: the key may have another one by then.
func TestKeptNoMore(t *testing.T) {
	c := newCluster(t)
	one, two := c.newHost(1), c.newHost(2)
	kept := netip.MustParseAddr(one.mustTake(sticky("a", "web", "0"), "", 4))
	one.mustFree("a")
	two.leases.owners[kept] = attachment("another")
	var taken string
	one.before = func() {
		if err := two.Unreserve(t.Context(), kept); err != nil {
			t.Fatal(err)
		}
		taken = two.mustTake(sticky("b", "web", "0"), "", 4)
	}
	one.mustFail(sticky("c", "web", "0"), ipam.ErrExhausted, "is not free yet", 4)
	if got, want := heldOnly(c.dump()), taken+" held web/0 b"; got != want {
		t.Errorf("held are %q, want %q", got, want)
	}
}

// TestBelowTheLimitNoMore: the same for an address that a job requests, which counted as its own.
func TestBelowTheLimitNoMore(t *testing.T) {
	c := newCluster(t, `, "maxReservedPerJob": 1`)
	one, two := c.newHost(1), c.newHost(2)
	address := one.mustTake(sticky("a", "web", "0"), "", 4)
	one.mustFree("a")
	one.before = func() {
		if err := two.Unreserve(t.Context(), netip.MustParseAddr(address)); err != nil {
			t.Fatal(err)
		}
		one.before = func() { two.mustTake(sticky("b", "web", "1"), "", 4) }
	}
	one.mustFail(allocation("c", "web", address), ipam.ErrExhausted, "at the same time", 4)
}

// TestWrongClock: another host takes an address that was given back when the clock of the one that had it says.
func TestWrongClock(t *testing.T) {
	for wrong, free := range map[time.Duration]bool{-time.Hour: true, time.Hour: false} {
		c := newCluster(t)
		one, two := c.newHost(1), c.newHost(2)
		address := one.mustTake(sticky("a", "web", "0"), "", 4)
		c.pass(wrong)
		one.mustFree("a")
		c.pass(-wrong)
		if got, err := two.take(sticky("b", "web", "0"), 4); free && got != address || !free && !errors.Is(err, ipam.ErrExhausted) {
			t.Errorf("by %s: two gets %q, %v", wrong, got, err)
		}
		c.pass(time.Hour + quiet)
		two.mustTake(sticky("b", "web", "0"), address, 4)
	}
}
