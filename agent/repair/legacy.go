// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package repair

import (
	"context"
	"time"

	"github.com/allocnet/allocnet/internal/netfilter"
)

// legacyPause is the time between two looks at the tables of iptables-legacy, of which the kernel
// does not tell.
const legacyPause = time.Second

type legacyTable struct {
	family netfilter.Family
	name   string
}

// watchLegacy calls tell when a table has become smaller, until ctx ends. A table that sizes leaves
// out is empty, or cannot be read.
func watchLegacy(ctx context.Context, sizes func() map[legacyTable]int, tell func()) {
	before := sizes()
	ticker := time.NewTicker(legacyPause)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now := sizes()
		for table, size := range before {
			if now[table] < size {
				tell()
			}
		}
		before = now
	}
}

// legacySizes are those of the tables that exist. Each look costs a few system calls.
func legacySizes() map[legacyTable]int {
	sizes := map[legacyTable]int{}
	for _, family := range []netfilter.Family{netfilter.IPv4, netfilter.IPv6} {
		names, err := netfilter.LegacyTables(family)
		if err != nil {
			continue // the comparison at an interval remains
		}
		for _, name := range names {
			if size, err := netfilter.LegacySize(family, name); err == nil {
				sizes[legacyTable{family, name}] = size
			}
		}
	}
	return sizes
}
