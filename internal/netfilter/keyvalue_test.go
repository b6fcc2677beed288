// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netfilter_test

import (
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/nftables"
	"github.com/google/nftables/expr"

	"github.com/allocnet/allocnet/internal/netfilter"
	"github.com/allocnet/allocnet/internal/netns/netnstest"
	"github.com/allocnet/allocnet/internal/roottest"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// TestRootValuesAndCounts: a map has the values that it was given, and a set counts packets that are looked up and found, which an element that is
// added again goes on with; nft shows both.
func TestRootValuesAndCounts(t *testing.T) {
	roottest.Require(t)
	link := []netfilter.KeyType{netfilter.LinkName}
	values := &netfilter.KeySet{Name: "values", Key: link, Data: netfilter.MAC}
	counts := &netfilter.KeySet{Name: "counts", Key: link, Counts: true}
	value := netfilter.Element{Key: netfilter.LinkKey("lo"), Data: []byte{2, 0, 0, 0, 0, 1}, Comment: "of lo"}
	key := netfilter.Element{Key: netfilter.LinkKey("lo"), Comment: "of lo"}
	priority := nftables.ChainPriorityRef(0)
	hook := &netfilter.Hook{Number: nftables.ChainHookInput, Priority: priority, Filters: true}
	rule := netfilter.Rule{Chain: "input", Exprs: netfilter.KeyIn("counts", true, netfilter.MetaPart(expr.MetaKeyIIFNAME))}
	table := &netfilter.Table{Family: netfilter.INet, Name: "t"}
	netnstest.Run(t, func() error {
		socket, err := netfilter.Dial(t.Context())
		if err != nil {
			return err
		}
		defer socket.Close()
		err = socket.Change(func(b *netfilter.Batch) error {
			b.AddTable(table)
			b.AddKeySet(table, values)
			b.AddKeySet(table, counts)
			chain := &netfilter.Chain{Name: "input", Hook: hook, Rules: []netfilter.Rule{rule}}
			b.AddChain(table, chain)
			b.SetRules(table, chain)
			b.AddElements(table, "values", []netfilter.Element{value})
			b.AddElements(table, "counts", []netfilter.Element{key})
			return nil
		})
		if err != nil {
			return err
		}
		sandbox.Run(t, "ip", "link", "set", "lo", "up")
		out, err := net.Dial("udp", "127.0.0.1:9")
		if err != nil {
			return err
		}
		defer out.Close()
		_, err = out.Write([]byte("12"))
		if found, failed := socket.Elements(table, "values"); failed != nil || !slices.EqualFunc(found, []netfilter.Element{value}, func(a, b netfilter.Element) bool { return cmp.Equal(a, b) }) {
			t.Errorf("the values are %v, %v", found, failed)
		}
		for range 2 {
			found, ok, failed := socket.Element(table, "counts", key.Key)
			if failed != nil || !ok || found.Counted.Packets == 0 || found.Counted.Bytes < 30 || found.Comment != key.Comment {
				t.Errorf("the counts are %+v, %t, %v", found, ok, failed)
			}
			if failed := socket.Change(func(b *netfilter.Batch) error { b.AddElements(table, "counts", []netfilter.Element{key}); return nil }); failed != nil {
				return failed
			}
		}
		listed := sandbox.Run(t, "nft", "list", "table", "inet", "t")
		for _, want := range []string{`"lo" comment "of lo" : 02:00:00:00:00:01`, `"lo" counter packets `} {
			if !strings.Contains(listed, want) {
				t.Errorf("%s lacks %s", listed, want)
			}
		}
		return err
	})
}
