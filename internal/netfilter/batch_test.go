// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netfilter_test

import (
	"encoding/binary"
	"net"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"

	"github.com/allocnet/allocnet/internal/netfilter"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/roottest"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// guardOf returns a table with sets of so many addresses, more than a message has, and a rule for each.
func guardOf(count int) *netfilter.Table {
	t := &netfilter.Table{Family: netfilter.INet, Name: "guard"}
	c := netfilter.Chain{Name: "input", Hook: &netfilter.Hook{Number: nftables.ChainHookInput, Priority: nftables.ChainPriorityFilter, Filters: true}}
	for name, length := range map[string]int{"four": net.IPv4len, "six": net.IPv6len} {
		set := netfilter.Set{Name: name, Length: length}
		for i := range count {
			key := make([]byte, length)
			key[0] = 0x20
			binary.BigEndian.PutUint16(key[length-2:], uint16(i))
			set.Elements = append(set.Elements, key)
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
