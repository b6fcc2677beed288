// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netfilter_test

import (
	"encoding/binary"
	"errors"
	"net"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/netfilter"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/netns/netnstest"
	"github.com/allocnet/allocnet/internal/roottest"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// guardOf returns a table with sets of so many addresses, more than a message has, and a rule for each.
func guardOf(count int) *netfilter.Table {
	t := &netfilter.Table{Family: netfilter.INet, Name: "guard"}
	c := netfilter.Chain{Name: "input", Hook: &netfilter.Hook{Number: nftables.ChainHookInput, Priority: nftables.ChainPriorityFilter, Filters: true}}
	for name, length := range map[string]int{"four": net.IPv4len, "six": net.IPv6len} {
		set := netfilter.Set{KeySet: netfilter.KeySet{Name: name, Key: []netfilter.KeyType{netfilter.Address4}, IsConstant: true}}
		if length == net.IPv6len {
			set.Key[0] = netfilter.Address6
		}
		for i := range count {
			key := make([]byte, length)
			key[0] = 0x20
			binary.BigEndian.PutUint16(key[length-2:], uint16(i))
			set.Elements = append(set.Elements, netfilter.Element{Key: key})
		}
		t.Sets = append(t.Sets, set)
		zero := net.IPv4zero
		if length == net.IPv6len {
			zero = net.IPv6zero
		}
		c.Rules = append(c.Rules, netfilter.Rule{Chain: "input", Comment: name, Exprs: slices.Concat(netfilter.FamilyMatch(zero), []expr.Any{
			&expr.Payload{DestRegister: netfilter.Register, Base: expr.PayloadBaseNetworkHeader, Offset: 8, Len: uint32(length)},
			&expr.Lookup{SourceRegister: netfilter.Register, SetName: name, Invert: true},
		}, netfilter.Verdict(expr.VerdictDrop, ""))})
	}
	t.Chains = []netfilter.Chain{c}
	return t
}

// TestRootReplaceTable: a table is made anew in one batch, with sets of thousands, and nothing of before is left. One that is not there
// can be removed.
func TestRootReplaceTable(t *testing.T) {
	roottest.Require(t)
	empty, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	defer empty.Close()
	err = empty.Do(func() error {
		socket, err := netfilter.Dial(t.Context())
		if err != nil {
			return err
		}
		defer socket.Close()
		replace := func(table *netfilter.Table, remove bool) {
			t.Helper()
			if err := socket.Change(func(b *netfilter.Batch) error { b.ReplaceTable(table, remove); return nil }); err != nil {
				t.Error(err)
			}
		}
		replace(guardOf(0), true)
		for _, count := range []int{0, 5000, 1} {
			replace(guardOf(count), false)
			for name, address := range map[string]string{"four": "32.0.", "six": "2000::"} {
				if got := strings.Count(sandbox.Run(t, "nft", "list", "set", "inet", "guard", name), address); got != count {
					t.Errorf("the set %s has %d addresses, want %d", name, got, count)
				}
			}
			rules, err := socket.List(guardOf(0), "input")
			if err != nil || len(rules) != 2 {
				t.Errorf("%d rules, %v, want two", len(rules), err)
			}
		}
		replace(guardOf(0), true)
		if out, err := exec.Command("nft", "list", "table", "inet", "guard").CombinedOutput(); err == nil {
			t.Errorf("left is %s", out)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestRootChange: a batch is filled again after a reload of all rules, whose handles are others. What is as it has to be is not
// touched, and a batch that the kernel refuses is an error, after which the connection is usable.
func TestRootChange(t *testing.T) {
	roottest.Require(t)
	empty, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	defer empty.Close()
	table := &netfilter.Table{Family: netfilter.INet, Name: "t", Chains: []netfilter.Chain{{Name: "c", Rules: []netfilter.Rule{
		{Chain: "c", Comment: "one", Exprs: netfilter.PortMatch(6, 80)}, {Chain: "c", Comment: "two", Exprs: netfilter.PortMatch(6, 81)},
	}}}}
	err = empty.Do(func() error {
		socket, err := netfilter.Dial(t.Context())
		if err != nil {
			return err
		}
		defer socket.Close()
		build := func() error { return socket.Change(func(b *netfilter.Batch) error { return b.MakeTable(table) }) }
		list := func() (comments string, first uint64) {
			rules, err := socket.List(table, "c")
			if err != nil || len(rules) == 0 {
				t.Errorf("the rules are %v, %v", rules, err)
				return "", 0
			}
			for _, r := range rules {
				comments += r.Comment() + " "
			}
			return comments, rules[0].Handle
		}
		if err := build(); err != nil {
			return err
		}
		_, before := list()
		generation, err := socket.Generation()
		if err = errors.Join(err, build()); err != nil {
			return err
		}
		if now, err := socket.Generation(); now != generation {
			t.Errorf("a table that is made was changed: generation %d, %v, want %d", now, err, generation)
		}
		err = socket.Change(func(b *netfilter.Batch) error { b.DeleteChain(table, "none"); return nil })
		if comments, after := list(); !errors.Is(err, unix.ENOENT) || comments != "one two " || after != before {
			t.Errorf("the rules are %q with the handle %d, want that of before, %d; %v, want ENOENT of a chain that is missing", comments, after, before, err)
		}
		sandbox.Run(t, "nft", "insert", "rule", "inet", "t", "c", "accept")
		if err := build(); err != nil {
			return err
		}
		if comments, _ := list(); comments != "one two " {
			t.Errorf("the rules are %q, want no other", comments)
		}
		fills := 0
		err = socket.Change(func(b *netfilter.Batch) error {
			rules, err := b.Of(table, "c")
			if fills++; fills == 1 {
				sandbox.Run(t, "nft", "flush", "ruleset")
				err = errors.Join(err, build())
			}
			b.DeleteRule(table, "c", rules[0])
			return err
		})
		if comments, _ := list(); err != nil || fills != 2 || comments != "two " {
			t.Errorf("the rules are %q, %v, after %d batches: want the first one removed by the second", comments, err, fills)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestRootMadeTable: what is not as it has to be is made, or is an error, and a table that goes meanwhile is made anew.
func TestRootMadeTable(t *testing.T) {
	roottest.Require(t)
	hook := &netfilter.Hook{Number: nftables.ChainHookPostrouting, Priority: nftables.ChainPriorityNATSource}
	table := &netfilter.Table{Family: netfilter.INet, Name: "t", Chains: []netfilter.Chain{{Name: "plain"}, {Name: "nat", Hook: hook}}}
	for name, test := range map[string]struct {
		before, meanwhile []string
		refused           bool
	}{
		"nothing":                 {},
		"one chain":               {before: []string{"add table inet t", "add chain inet t plain"}},
		"a chain without a hook":  {before: []string{"add table inet t", "add chain inet t plain", "add chain inet t nat"}, refused: true},
		"a chain at another hook": {before: []string{"add table inet t", "add chain inet t plain", "add chain inet t nat { type nat hook output priority 100; }"}, refused: true},
		"a chain of another kind": {before: []string{"add table inet t", "add chain inet t plain", "add chain inet t nat { type filter hook postrouting priority 100; }"}, refused: true},
		"another priority":        {before: []string{"add table inet t", "add chain inet t plain", "add chain inet t nat { type nat hook postrouting priority 90; }"}, refused: true},
		"gone meanwhile": {
			before:    []string{"add table inet t", "add chain inet t plain", "add chain inet t nat { type nat hook postrouting priority 100; }"},
			meanwhile: []string{"delete table inet t"},
		},
	} {
		empty, err := netns.New()
		if err != nil {
			t.Fatal(err)
		}
		err = empty.Do(func() error {
			nft := func(commands []string) {
				for _, command := range commands {
					sandbox.Run(t, "nft", command)
				}
			}
			nft(test.before)
			socket, err := netfilter.Dial(t.Context())
			if err != nil {
				return err
			}
			defer socket.Close()
			err = socket.Change(func(b *netfilter.Batch) error {
				err := b.MakeTable(table)
				b.AddEchoedRule(table, netfilter.Rule{Chain: "plain", Comment: "one", Exprs: netfilter.PortMatch(6, 80)}, func(uint64) {})
				nft(test.meanwhile)
				test.meanwhile = nil
				return err
			})
			if (err != nil) != test.refused {
				t.Errorf("%s: %v, refused %t", name, err, test.refused)
			}
			want := map[bool]string{false: "hook postrouting priority srcnat", true: "chain nat"}[test.refused]
			if listed := sandbox.Run(t, "nft", "list", "table", "inet", "t"); !strings.Contains(listed, want) || strings.Contains(listed, "one") == test.refused {
				t.Errorf("%s: %s", name, listed)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		_ = empty.Close()
	}
}

// TestRootEchoedFirst: the handles of rules are known also where the batch begins with one of them: then the kernel echoes the
// generation, too.
func TestRootEchoedFirst(t *testing.T) {
	roottest.Require(t)
	table := &netfilter.Table{Family: netfilter.INet, Name: "t", Chains: []netfilter.Chain{{Name: "plain"}}}
	netnstest.Run(t, func() error {
		socket, err := netfilter.Dial(t.Context())
		if err != nil {
			return err
		}
		defer socket.Close()
		for _, want := range [][]uint64{{2, 3}, {4, 5}} {
			var handles []uint64
			err := socket.Change(func(b *netfilter.Batch) error {
				err := b.MakeTable(table)
				for range want {
					b.AddEchoedRule(table, netfilter.Rule{Chain: "plain", Exprs: netfilter.PortMatch(6, 80)}, func(handle uint64) { handles = append(handles, handle) })
				}
				return err
			})
			if err != nil || !slices.Equal(handles, want) {
				t.Errorf("%v, and the handles are %v, want %v", err, handles, want)
			}
		}
		return nil
	})
}

// TestRootDeleteAfterReload: if all rules are made anew between the listing and the batch, the handle that was listed is that of another
// rule, which stays: the batch is filled again.
func TestRootDeleteAfterReload(t *testing.T) {
	roottest.Require(t)
	empty, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	defer empty.Close()
	table := &netfilter.Table{Family: netfilter.INet, Name: "t"}
	load := func(comments ...string) {
		lines := []string{"nft delete table inet t || true", "nft add table inet t", "nft add chain inet t c"}
		for _, comment := range comments {
			lines = append(lines, "nft add rule inet t c accept comment "+comment)
		}
		sandbox.Run(t, "sh", "-c", strings.Join(lines, "\n"))
	}
	err = empty.Do(func() error {
		socket, err := netfilter.Dial(t.Context())
		if err != nil {
			return err
		}
		defer socket.Close()
		load("old")
		filled := 0
		err = socket.Change(func(b *netfilter.Batch) error {
			rules, err := b.Of(table, "c")
			if filled++; filled == 1 {
				load("other", "old")
			}
			for _, rule := range rules {
				if rule.Comment() == "old" {
					b.DeleteRule(table, "c", rule)
				}
			}
			return err
		})
		rules, failed := socket.List(table, "c")
		if len(rules) != 1 || rules[0].Comment() != "other" || filled != 2 {
			t.Errorf("%d rules are left, filled %d times", len(rules), filled)
		}
		return errors.Join(err, failed)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestRootDormantTable: a table that an operator has put to sleep wakes with the next change of what it has, and only then.
func TestRootDormantTable(t *testing.T) {
	roottest.Require(t)
	table := &netfilter.Table{Family: netfilter.INet, Name: "t", Chains: []netfilter.Chain{{Name: "plain"}}}
	netnstest.Run(t, func() error {
		socket, err := netfilter.Dial(t.Context())
		if err != nil {
			return err
		}
		defer socket.Close()
		requireDormant := func(want bool) {
			t.Helper()
			if got, err := socket.IsDormant(table); got != want || err != nil {
				t.Errorf("dormant: %t, %v, want %t", got, err, want)
			}
		}
		build := func() error { return socket.Change(func(b *netfilter.Batch) error { return b.MakeTable(table) }) }
		requireDormant(false) // there is none
		if err := build(); err != nil {
			return err
		}
		requireDormant(false)
		sandbox.Run(t, "nft", "add table inet t { flags dormant; }")
		requireDormant(true)
		err = build()
		requireDormant(false)
		return err
	})
}
