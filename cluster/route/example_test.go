// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package route_test

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/route"
)

// Example keeps the routes of a pool while the kernel's tables change. The agent also calls Apply when
// the store has other blocks.
func Example() {
	keep := func(ctx context.Context, c *ipam.Config, own []netip.Prefix, targets []route.Target) error {
		table := route.New(route.Options{Dir: "/var/lib/allocnet/routes"})
		pool := route.PoolOf(c)
		if _, _, err := table.Device(pool, ipam.Endpoint{Address: netip.MustParseAddr("192.0.2.1")}); err != nil {
			return err
		}
		changes, err := table.Changes(ctx)
		if err != nil {
			return err
		}
		for range changes {
			report, err := table.Apply(pool, own, targets)
			if err != nil {
				return err
			}
			for _, r := range report.Routes {
				if r.State != route.Installed {
					fmt.Println(r.Block, r.Node, r.State, r.Reason)
				}
			}
		}
		return table.Remove(pool)
	}
	_ = keep
}

// ExampleTable_RemoveAll is what a host does that leaves.
func ExampleTable_RemoveAll() {
	leave := func(table *route.Table) error {
		if err := table.RemoveAll(); err != nil {
			return fmt.Errorf("routes with the protocol %d: %w", route.Protocol, err)
		}
		return nil
	}
	_ = leave
}
