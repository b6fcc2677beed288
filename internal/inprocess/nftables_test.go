// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"errors"
	"slices"
	"testing"

	"github.com/containernetworking/plugins/pkg/ns"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/roottest"
)

// publishing returns what publishes a port of each of some attachments, or removes it.
func publishing(t *testing.T, remove bool, ids ...string) (all []*Changes) {
	t.Helper()
	for _, id := range ids {
		conf := &portmapConfig{network: "n", containerID: id}
		conf.RuntimeConfig.PortMappings = []portMapping{{8080, 80, "tcp", ""}}
		r, err := conf.nftables(address(t, "10.0.0.5/24"))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, &Changes{rules: []rules{{remove: remove, nftables: r}}})
	}
	return all
}

// TestRootRemovalAfterReload: when all rules are loaded anew between the listing of rules and their
// removal, the handles are those of other attachments. Nothing of these is removed.
func TestRootRemovalAfterReload(t *testing.T) {
	roottest.Require(t)
	netns, err := ns.TempNetNS()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = netns.Close() })
	err = within(netns, func(ns.NetNS) error { // on one thread: what starts goroutines would change the host
		s, err := dialNFTables(t.Context())
		if err != nil {
			return err
		}
		defer s.Close()
		if err := errors.Join(s.commit(publishing(t, false, "zero", "one", "two")), s.commit(publishing(t, true, "zero"))); err != nil {
			return err
		}
		stale, err := s.batch(publishing(t, true, "one"))
		if err != nil {
			return err
		}
		table, flush := publishing(t, true, "one")[0].rules[0].nftables.table, &nftablesBatch{}
		flush.add(unix.NFT_MSG_DELTABLE, 0, table.family, nil)
		if err := errors.Join(s.send(flush), s.commit(publishing(t, false, "one", "two"))); err != nil {
			return err
		}
		if err := s.send(stale); !errors.Is(err, unix.ERESTART) {
			t.Errorf("rules are removed by handles of before the reload: %v", err)
		}
		if err := s.commit(publishing(t, true, "one")); err != nil {
			return err
		}
		listed, err := s.list(table, publishedChain)
		var left []string
		for _, rule := range listed {
			left = append(left, rule.comment())
		}
		if !slices.Equal(left, []string{"two"}) {
			t.Errorf("published are %v, want two", left)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
