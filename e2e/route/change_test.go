// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package route

import (
	"context"
	"testing"
	"time"

	"github.com/allocnet/allocnet/cluster/ipam"
)

// TestChanges: what concerns the pool is told of. Which events do not is a test of package route.
func TestChanges(t *testing.T) {
	hosts := newHosts(t, 3)
	p, a := pool(ipam.ModeAuto), hosts[0]
	join(t, p, hosts)
	for _, command := range []string{
		"route flush proto 172", "-6 route del fd60::200/122",
		"link del vx-net", "link set vx-net down", "link set vx-net address aa:aa:aa:aa:aa:aa",
		"neighbour flush dev vx-net nud permanent", "bridge fdb flush dev vx-net",
		"route add 10.60.2.0/26 via 172.31.0.254 metric 9", "route add fd60::200/122 via fd31::fe metric 9",
		"address add 198.51.100.1/32 dev eth0",
		"link set eth0 mtu 1400",
	} {
		requireTold(t, a, command)
		a.apply(t, p, hosts)
	}
	requireTold(t, a, "address add 10.60.2.9/32 dev lo")
	requireTold(t, a, "link set eth0 down")
}

// requireTold: the command is told of.
func requireTold(t *testing.T, h *host, command string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var changes <-chan []string
	h.do(t, func() (err error) {
		changes, err = h.table.Changes(ctx)
		return err
	})
	spoil(t, h, command)
	select {
	case <-changes:
	case <-time.After(time.Minute):
		t.Errorf("%s: not told of", command)
	}
	cancel()
	for range changes { // until it is closed
	}
}
