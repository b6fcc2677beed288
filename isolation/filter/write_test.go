// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package filter_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"github.com/allocnet/allocnet/internal/exhaustive"
	"github.com/allocnet/allocnet/internal/netns/netnstest"
	"github.com/allocnet/allocnet/internal/roottest"
	"github.com/allocnet/allocnet/isolation"
	"github.com/allocnet/allocnet/isolation/filter"
)

// bridgesOf are those of mixed.
var bridgesOf = []string{"br0", "br1", "br2"}

// TestRootAddedOneByOne: attachments that are added one after another make what applying the state makes, in each order, and repeated; those that
// are removed leave what the rest has, and the last one nothing.
func TestRootAddedOneByOne(t *testing.T) {
	roottest.Require(t)
	state := mixed()
	orders := [][]int{{0, 1, 2, 3, 4, 5, 6}, {6, 5, 4, 3, 2, 1, 0}, {3, 0, 6, 1, 5, 2, 4}}
	for _, order := range orders {
		netnstest.Run(t, func() error {
			addBridges(t, bridgesOf...)
			so := filter.State{Rules: state.Rules}
			for _, i := range order {
				m := state.Members[i]
				so.Members = append(so.Members, m)
				for range 2 {
					err := errors.Join(kernel.Guard(t.Context(), m.ID, m.End, m.Bridge), admit(t, state.Rules, m, source(so)))
					if err != nil {
						return err
					}
				}
				requireComplete(t, so)
			}
			for len(so.Members) > 0 {
				m := so.Members[0]
				so.Members = so.Members[1:]
				for range 2 {
					if err := kernel.Remove(t.Context(), lazily(state.Rules), m); err != nil {
						return err
					}
				}
				requireComplete(t, so)
				owners, err := filter.Owners(t.Context())
				if err != nil || slices.Contains(owners, m.ID) {
					t.Errorf("%s is left: %q, %v", m.ID, owners, err)
				}
			}
			requireNothing(t)
			return nil
		})
	}
}

// requireNothing fails if anything is left on the host.
func requireNothing(t *testing.T) {
	t.Helper()
	if left := listTables(t); left != "" {
		t.Errorf("left is %s", left)
	}
	for _, key := range []string{"net.ipv4.conf.br0.proxy_arp_pvlan", "net.ipv6.conf.br0.proxy_ndp", "net.ipv4.conf.br1.proxy_arp_pvlan"} {
		if value := run(t, "sysctl", "-n", key); strings.TrimSpace(value) != "0" {
			t.Errorf("%s is %s", key, value)
		}
	}
	if left := run(t, "ip", "-6", "neigh", "show", "proxy"); left != "" {
		t.Errorf("the host answers for %s", left)
	}
}

// TestRootNotUsed: without isolation nothing is made, also by attachments that have none, and rules that allow what is not denied.
func TestRootNotUsed(t *testing.T) {
	roottest.Require(t)
	netnstest.Run(t, func() error {
		addBridges(t, bridgesOf...)
		state := filter.State{Rules: isolation.Rules{Allow: mixed().Rules.Allow}, Members: []filter.Member{member(1, "web", "o", isolation.None, "br0")}}
		err := errors.Join(admit(t, state.Rules, state.Members[0], source(state)), kernel.Apply(t.Context(), source(state)), kernel.Remove(t.Context(), lazily(state.Rules), state.Members[0]))
		requireComplete(t, state)
		requireNothing(t)
		return err
	})
}

// TestRootRemovedByOwner: an attachment is removed also if the rules have changed since it was added, or no more than its ID is known. One that
// has its address by now keeps it.
func TestRootRemovedByOwner(t *testing.T) {
	roottest.Require(t)
	state := mixed()
	for name, test := range map[string]struct {
		rules  isolation.Rules
		member filter.Member
	}{
		"other rules": {isolation.Rules{}, state.Members[0]},
		"by its ID":   {state.Rules, filter.Member{Member: isolation.Member{ID: state.Members[0].ID}}},
	} {
		netnstest.Run(t, func() error {
			addBridges(t, bridgesOf...)
			heir := state.Members[0]
			heir.ID, heir.End, heir.MAC = "heir", "veth0000ffff", state.Members[5].MAC
			left := filter.State{Rules: state.Rules, Members: append([]filter.Member{heir}, state.Members[1:]...)}
			if err := kernel.Apply(t.Context(), source(state)); err != nil {
				return err
			}
			if err := kernel.Remove(t.Context(), lazily(test.rules), test.member); err != nil {
				return err
			}
			if owners, err := filter.Owners(t.Context()); err != nil || slices.Contains(owners, test.member.ID) {
				t.Errorf("%s: it is left: %q, %v", name, owners, err)
			}
			if err := admit(t, state.Rules, heir, source(left)); err != nil {
				return err
			}
			before := listTables(t)
			err := kernel.Remove(t.Context(), lazily(test.rules), state.Members[0])
			if diff := cmp.Diff(before, listTables(t)); diff != "" {
				t.Errorf("%s: the heir has lost %s", name, diff)
			}
			requireComplete(t, left)
			return err
		})
	}
}

// TestRootRepaired: each damage is noticed, and Apply repairs it.
func TestRootRepaired(t *testing.T) {
	roottest.Require(t)
	state := mixed()
	netnstest.Run(t, func() error {
		addBridges(t, bridgesOf...)
		if err := kernel.Apply(t.Context(), source(state)); err != nil {
			return err
		}
		before := listTables(t)
		for _, damage := range []string{
			"nft flush ruleset", "nft delete table bridge allocnet-isolation", "nft flush table inet allocnet-isolation", "nft flush chain inet allocnet-isolation strict",
			"nft insert rule inet allocnet-isolation forward accept", "nft add rule inet allocnet-isolation reached accept", "nft flush set bridge allocnet-isolation guarded",
			"nft flush map inet allocnet-isolation level4", "nft delete element inet allocnet-isolation links { br0 }", "nft delete element inet allocnet-isolation members6 { br0 . 2001:db8::1 }",
			"nft add table inet allocnet-isolation { flags dormant; }", "nft add table bridge allocnet-isolation { flags dormant; }",
			"ip -6 neigh del proxy 2001:db8::1 dev br0", "sysctl -qw net.ipv4.conf.br0.proxy_arp_pvlan=0", "nft flush set bridge allocnet-isolation apart",
			"nft flush map bridge allocnet-isolation gateways", "nft flush set bridge allocnet-isolation neighbours", "nft flush set bridge allocnet-isolation neighbours-apart", "nft flush map bridge allocnet-isolation frames4",
			"nft flush set inet allocnet-isolation denied6", "nft flush set bridge allocnet-isolation forged", "nft flush chain bridge allocnet-isolation routed",
		} {
			run(t, strings.Fields(damage)...)
			if lacks, err := kernel.Lacks(t.Context(), state); err != nil || len(lacks) == 0 {
				t.Errorf("%s is not noticed: %v", damage, err)
			}
			if err := kernel.Apply(t.Context(), source(state)); err != nil {
				t.Errorf("%s: %v", damage, err)
			}
			requireComplete(t, state)
			if diff := cmp.Diff(before, listTables(t)); diff != "" {
				t.Errorf("%s: %s", damage, diff)
			}
		}
		return nil
	})
}

// setsOf returns the sets and maps that there are, as nft is told of them.
func setsOf(t *testing.T) (all [][]string) {
	t.Helper()
	for _, kind := range []string{"set", "map"} {
		var listed struct {
			Nftables []map[string]struct{ Family, Table, Name string }
		}
		if err := json.Unmarshal([]byte(run(t, "nft", "-j", "list", kind+"s")), &listed); err != nil {
			t.Error(err)
		}
		for _, object := range listed.Nftables {
			if o, ok := object[kind]; ok {
				all = append(all, []string{kind, o.Family, o.Table, o.Name})
			}
		}
	}
	return all
}

// TestRootRemovedAfterLoss: of an attachment nothing is left, also if others have removed the elements of any one set.
func TestRootRemovedAfterLoss(t *testing.T) {
	roottest.Require(t)
	state := mixed()
	netnstest.Run(t, func() error {
		addBridges(t, bridgesOf...)
		err := kernel.Apply(t.Context(), source(state))
		sets := setsOf(t)
		for _, set := range exhaustive.Of(t, sets) {
			run(t, append([]string{"nft", "flush"}, set...)...)
			gone := []filter.Member{state.Members[0], state.Members[5]}
			for _, m := range gone {
				err = errors.Join(err, kernel.Remove(t.Context(), lazily(state.Rules), m))
			}
			for line := range strings.Lines(listTables(t)) {
				if slices.ContainsFunc(gone, func(m filter.Member) bool { return strings.Contains(line, fmt.Sprintf("comment %q", m.ID)) }) {
					t.Errorf("without the elements of %q there is left %s", set, line)
				}
			}
			err = errors.Join(err, kernel.Apply(t.Context(), source(state)))
		}
		if len(sets) < 40 {
			t.Errorf("there are %q: too few", sets)
		}
		return err
	})
}

// TestRootForeignPort: on a bridge with a port to other machines the host answers for none, and the neighbours are apart all the same.
func TestRootForeignPort(t *testing.T) {
	roottest.Require(t)
	state := mixed()
	netnstest.Run(t, func() error {
		addBridges(t, bridgesOf...)
		run(t, "ip", "link", "add", "uplink", "master", "br0", "type", "vxlan", "id", "1", "dstport", "4789")
		m := state.Members[0]
		err := admit(t, state.Rules, m, source(filter.State{Rules: state.Rules}))
		if err == nil || !strings.Contains(err.Error(), "the bridge br0 has the port uplink, of the kind vxlan") {
			t.Errorf("the error is %v", err)
		}
		if value := run(t, "sysctl", "-n", "net.ipv4.conf.br0.proxy_arp_pvlan"); strings.TrimSpace(value) != "0" {
			t.Errorf("proxy_arp_pvlan is %s", value)
		}
		if apart := run(t, "nft", "list", "set", "bridge", "allocnet-isolation", "apart"); !strings.Contains(apart, m.End) {
			t.Errorf("it is not apart: %s", apart)
		}
		err = kernel.Remove(t.Context(), lazily(state.Rules), m)
		requireNothing(t)
		return err
	})
}

// TestRootGuardOfAnotherForm: the guard of an attachment takes nothing from others where another version of allocnet has made the tables, and makes
// no part of them by itself.
func TestRootGuardOfAnotherForm(t *testing.T) {
	roottest.Require(t)
	state := mixed()
	outdate := func(family string) {
		chain := regexp.MustCompile("chain (version-[0-9a-f]+)").FindStringSubmatch(run(t, "nft", "list", "table", family, "allocnet-isolation"))
		run(t, "nft", "rename", "chain", family, "allocnet-isolation", chain[1], "version-0")
	}
	remove := func(family string) { run(t, "nft", "delete", "table", family, "allocnet-isolation") }
	for _, damage := range []func(string){outdate, remove} {
		for family, m := range map[string]filter.Member{"bridge": member(8, "web", "s", isolation.Strict, "br0"), "inet": member(9, "db", "p", isolation.Strict, "")} {
			netnstest.Run(t, func() error {
				addBridges(t, bridgesOf...)
				if err := kernel.Apply(t.Context(), source(state)); err != nil {
					return err
				}
				damage(family)
				before := listTables(t)
				if err := kernel.Guard(t.Context(), m.ID, m.End, m.Bridge); err == nil || !strings.Contains(err.Error(), m.End) {
					t.Errorf("the guard of %s: %v", m.ID, err)
				}
				if diff := cmp.Diff(before, listTables(t)); diff != "" {
					t.Errorf("the guard of %s has changed %s", m.ID, diff)
				}
				all := filter.State{Rules: state.Rules, Members: append(slices.Clone(state.Members), m)}
				err := errors.Join(kernel.Apply(t.Context(), source(all)), kernel.Guard(t.Context(), m.ID, m.End, m.Bridge))
				requireComplete(t, all)
				return err
			})
		}
	}
}

// TestRootOperatorAnswers: where no attachment is apart the host answers for neighbours as the operator has it.
func TestRootOperatorAnswers(t *testing.T) {
	roottest.Require(t)
	netnstest.Run(t, func() error {
		addBridges(t, bridgesOf...)
		state := filter.State{Members: []filter.Member{member(1, "web", "s", isolation.Strict, "br0"), member(3, "web", "n", isolation.Network, "br1")}}
		run(t, "sysctl", "-qw", "net.ipv4.conf.br1.proxy_arp_pvlan=1", "net.ipv6.conf.br1.proxy_ndp=1")
		run(t, "ip", "-6", "neigh", "add", "proxy", "2001:db8::99", "dev", "br0")
		run(t, "ip", "-6", "neigh", "add", "proxy", "2001:db8::99", "dev", "br1")
		err := errors.Join(kernel.Apply(t.Context(), source(state)), kernel.Remove(t.Context(), lazily(state.Rules), state.Members[1]))
		if value := run(t, "sysctl", "-n", "net.ipv4.conf.br1.proxy_arp_pvlan"); strings.TrimSpace(value) != "1" {
			t.Errorf("proxy_arp_pvlan is %s", value)
		}
		err = errors.Join(err, kernel.Remove(t.Context(), lazily(state.Rules), state.Members[0]))
		for _, bridgeName := range bridgesOf[:2] {
			if left := run(t, "ip", "-6", "neigh", "show", "proxy", "dev", bridgeName); strings.Join(strings.Fields(left), " ") != "2001:db8::99 proxy" {
				t.Errorf("on %s the host answers for %q", bridgeName, left)
			}
		}
		return err
	})
}

// TestRootAtTheSameTime: what several add and remove at the same time is complete in the end, also while rules change.
func TestRootAtTheSameTime(t *testing.T) {
	roottest.Require(t)
	n := newNamespace(t)
	in := func(do func() error) error { return n.Do(do) }
	if err := in(func() error { addBridges(t, bridgesOf...); return nil }); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	state := filter.State{Rules: mixed().Rules}
	read := func() (filter.State, error) {
		mu.Lock()
		defer mu.Unlock()
		return filter.State{Rules: state.Rules, Members: slices.Clone(state.Members)}, nil
	}
	var group errgroup.Group
	for i := range 8 {
		group.Go(func() error { return in(func() error { return cycle(t, i, &mu, &state, read) }) })
	}
	group.Go(func() error {
		return in(func() error {
			for range 5 {
				changing.Lock()
				err := kernel.Apply(t.Context(), read)
				changing.Unlock()
				if err != nil {
					return err
				}
			}
			return nil
		})
	})
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	err := in(func() error {
		requireComplete(t, state)
		owners, err := filter.Owners(t.Context())
		if len(owners) != len(state.Members) {
			t.Errorf("%q have something, want %d", owners, len(state.Members))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// cycle adds and removes an attachment, and leaves it added.
func cycle(t *testing.T, i int, mu *sync.Mutex, state *filter.State, read filter.Source) error {
	jobs := []string{"web", "db", "batch", "other"}
	levels := []isolation.Level{isolation.Strict, isolation.Network, isolation.None}
	m := member(i+1, jobs[i%4], "s", levels[i%3], bridgesOf[i%3])
	m.Network = string(m.Level)
	for round := range 3 {
		mu.Lock()
		state.Members = append(state.Members, m)
		mu.Unlock()
		if err := admit(t, state.Rules, m, read); err != nil || round == 2 {
			return err
		}
		changing.RLock()
		err := kernel.Remove(t.Context(), lazily(state.Rules), m)
		mu.Lock()
		state.Members = slices.DeleteFunc(state.Members, func(other filter.Member) bool { return other.ID == m.ID })
		mu.Unlock()
		changing.RUnlock()
		if err != nil {
			return err
		}
	}
	return nil
}

// TestRootDormant: tables that sleep wake when an attachment is added.
func TestRootDormant(t *testing.T) {
	roottest.Require(t)
	state := mixed()
	netnstest.Run(t, func() error {
		addBridges(t, bridgesOf...)
		if err := kernel.Apply(t.Context(), source(state)); err != nil {
			return err
		}
		before := listTables(t)
		for _, family := range []string{"inet", "bridge"} {
			run(t, "nft", "add table "+family+" allocnet-isolation { flags dormant; }")
		}
		m := state.Members[0]
		if err := admit(t, state.Rules, m, source(state)); err != nil {
			return err
		}
		if diff := cmp.Diff(before, listTables(t)); diff != "" {
			t.Error(diff)
		}
		run(t, "nft", "add table bridge allocnet-isolation { flags dormant; }")
		if err := kernel.Guard(t.Context(), m.ID, m.End, m.Bridge); err != nil {
			return err
		}
		if diff := cmp.Diff(before, listTables(t)); diff != "" {
			t.Error(diff)
		}
		return nil
	})
}

// TestRootForeignSets: a table of the name that has no chains, and sets of another form, is made anew.
func TestRootForeignSets(t *testing.T) {
	roottest.Require(t)
	state := mixed()
	netnstest.Run(t, func() error {
		addBridges(t, bridgesOf...)
		run(t, "nft", "add table inet allocnet-isolation; add set inet allocnet-isolation members4 { type inet_service; }")
		err := kernel.Apply(t.Context(), source(state))
		requireComplete(t, state)
		return err
	})
}
