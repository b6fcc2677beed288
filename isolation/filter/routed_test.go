// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package filter_test

import (
	"errors"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/allocnet/allocnet/internal/roottest"
	"github.com/allocnet/allocnet/isolation"
	"github.com/allocnet/allocnet/isolation/filter"
)

// TestRootApartMeanwhile: the host answers on a bridge for the only attachment that is apart there, also if it is added while the former one is removed, and
// for none once all are removed, also at the same time.
func TestRootApartMeanwhile(t *testing.T) {
	roottest.Require(t)
	h := newHost(t)
	other := member(9, "web", "s", isolation.Strict, "")
	two := []filter.Member{narrowed(member(1, "web", "o", isolation.None, "br2"), "80/tcp", ""), narrowed(member(2, "db", "o", isolation.None, "br2"), "80/tcp", "")}
	inHost := func(do func() error) func() error { return func() error { return h.Do(do) } }
	atOnce := func(all ...func() error) {
		var group sync.WaitGroup
		errs := make([]error, len(all))
		for i, do := range all {
			group.Go(func() { errs[i] = do() })
		}
		group.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
	}
	apply := func(members ...filter.Member) {
		h.in(t, h.Namespace, func() error { return kernel.Apply(t.Context(), source(filter.State{Members: members})) })
	}
	remove := func(m filter.Member) func() error {
		return inHost(func() error {
			changing.RLock()
			defer changing.RUnlock()
			return kernel.Remove(t.Context(), lazily(isolation.Rules{}), m)
		})
	}
	h.in(t, h.Namespace, func() error { addBridges(t, "br2"); return nil })
	apply(other, two[0])
	for i := range 40 {
		if t.Failed() {
			return
		}
		gone, made := two[i%2], two[1-i%2]
		state := filter.State{Members: []filter.Member{other, made}}
		atOnce(remove(gone), inHost(func() error { return admit(t, isolation.Rules{}, made, source(state)) }))
		h.in(t, h.Namespace, func() error { requireComplete(t, state); return nil })
	}
	for range 40 {
		if t.Failed() {
			return
		}
		apply(other, two[0], two[1])
		atOnce(remove(two[0]), remove(two[1]))
		h.in(t, h.Namespace, func() error {
			value, err := os.ReadFile("/proc/sys/net/ipv4/conf/br2/proxy_arp_pvlan")
			if strings.TrimSpace(string(value)) != "0" {
				t.Errorf("the host answers for none, and goes on: %s", value)
			}
			return err
		})
	}
}
