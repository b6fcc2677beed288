// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netfilter_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/netfilter"
	"github.com/allocnet/allocnet/internal/netns/netnstest"
	"github.com/allocnet/allocnet/internal/roottest"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// TestRootKeySet: a map has the elements that it was given, as nft shows them, and one that is deleted is gone. One that is not there is an
// error of the whole batch.
func TestRootKeySet(t *testing.T) {
	roottest.Require(t)
	table := &netfilter.Table{Family: netfilter.INet, Name: "t"}
	set := &netfilter.KeySet{Name: "m", Comment: "of tests", Key: []netfilter.KeyType{netfilter.LinkName, netfilter.MAC, netfilter.Address4}, IsMap: true}
	element := func(link string) netfilter.Element {
		key := netfilter.Key(netfilter.LinkKey(link), []byte{2, 0, 0, 0, 0, 1}, []byte{192, 0, 2, 1})
		return netfilter.Element{Key: key, Verdict: expr.VerdictJump, Chain: "c", Comment: "of " + link}
	}
	first, second := element("veth1"), element("veth2")
	netnstest.Run(t, func() error {
		socket, err := netfilter.Dial(t.Context())
		if err != nil {
			return err
		}
		defer socket.Close()
		err = socket.Change(func(b *netfilter.Batch) error {
			b.AddTable(table)
			b.AddKeySet(table, set)
			b.AddChain(table, &netfilter.Chain{Name: "c"})
			b.AddElements(table, "m", []netfilter.Element{first, second})
			return nil
		})
		if err != nil {
			return err
		}
		listed := sandbox.Run(t, "nft", "list", "map", "inet", "t", "m")
		for _, want := range []string{`comment "of tests"`, `"veth2" . 02:00:00:00:00:01 . 192.0.2.1 comment "of veth2" : jump c`} {
			if !strings.Contains(listed, want) {
				t.Errorf("%s lacks %s", listed, want)
			}
		}
		remove := func() error {
			return socket.Change(func(b *netfilter.Batch) error { b.DeleteElements(table, "m", []netfilter.Element{first}); return nil })
		}
		if err := remove(); err != nil {
			return err
		}
		if err := remove(); !errors.Is(err, unix.ENOENT) {
			t.Errorf("removed twice: %v, want ENOENT", err)
		}
		left, err := socket.Elements(table, "m")
		if diff := cmp.Diff([]netfilter.Element{second}, left); diff != "" || err != nil {
			t.Errorf("%v %s", err, diff)
		}
		if found, ok, err := socket.Element(table, "m", second.Key); err != nil || !ok || found.Comment != "of veth2" {
			t.Errorf("the element is %v, %t, %v", found, ok, err)
		}
		if found, ok, err := socket.Element(table, "m", first.Key); err != nil || ok {
			t.Errorf("the element that is gone is %v, %t, %v", found, ok, err)
		}
		return nil
	})
}
