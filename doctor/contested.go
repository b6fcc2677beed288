// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
)

// asking tells whether another host of the link of an interface answers for an address that this one has.
type asking func(ctx context.Context, iface string, address netip.Addr) (bool, error)

// contested reports addresses that this host has for ports (publishAddress), and for which another host of the link answers, too. All
// are asked for at the same time: that takes a second.
func contested(ctx context.Context, r *Report, published func() (map[netip.Addr]string, error), asks asking) {
	held, err := published()
	if err != nil {
		r.addUnexamined("published addresses", err.Error(), "run allocnet doctor again")
		return
	}
	addresses := slices.SortedFunc(maps.Keys(held), netip.Addr.Compare)
	answered, errs := make([]bool, len(addresses)), make([]error, len(addresses))
	var group sync.WaitGroup
	for i, address := range addresses {
		group.Go(func() { answered[i], errs[i] = asks(ctx, held[address], address) })
	}
	group.Wait()
	for i, address := range addresses {
		subject := address.String()
		switch {
		case errs[i] != nil:
			r.addUnexamined(subject, fmt.Sprintf("ports of an allocation are published on it (publishAddress), and whether another host has it is not known: %v", errs[i]), "ip link show "+held[address]+": it has to be up, and to have a carrier (LOWER_UP)")
		case answered[i]:
			r.addError(subject, fmt.Sprintf("ports of an allocation are published on it (publishAddress), and another host on the link of %s answers for it, too: connections get to either", held[address]),
				fmt.Sprintf("find that host: ip neighbour show %s, on a third host; remove the address there, or publish on another one", address))
		}
	}
}
