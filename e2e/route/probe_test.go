// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package route

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/allocnet/allocnet/cluster/ipam"
	probe "github.com/allocnet/allocnet/internal/echo"
)

// ping sends an echo request from a host.
func ping(t testing.TB, from *host, r probe.Request, limit time.Duration) error {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), limit)
	defer stop()
	return from.ns.Do(func() error {
		_, err := probe.Ping(ctx, r)
		return err
	})
}

// TestProbe: what the agent probes a host with goes through VXLAN where the packets of allocations do. A
// host without a route back answers at the address of its node, and at that of its device if it has one.
func TestProbe(t *testing.T) {
	hosts := newHosts(t, 3)
	p, a := pool(ipam.ModeVXLAN), hosts[0]
	for _, h := range hosts {
		h.device(t, p)
	}
	report := a.apply(t, p, hosts)
	count(t, a)
	for _, other := range hosts[1:] {
		if err := ping(t, a, probe.Request{Target: other.endpoint.Address, Device: "vx-net", Source: a.endpoint.Address}, 10*time.Second); err != nil {
			t.Errorf("%s has no route to a: %v", other.name, err)
		}
	}
	if n := sent(t, a); n != "2" {
		t.Errorf("%s packets of VXLAN for two requests", n)
	}
	for _, h := range hosts[1:] {
		h.apply(t, p, hosts)
	}
	targets := 0
	for _, r := range report.Routes {
		if r.Via.Is4() {
			continue
		}
		targets++
		if err := ping(t, a, probe.Request{Target: r.Via.WithZone(r.Device), Device: r.Device}, 10*time.Second); err != nil {
			t.Errorf("%s at %s: %v", r.Node, r.Via, err)
		}
	}
	if targets != 2 {
		t.Errorf("%d targets of IPv6 in %+v", targets, report.Routes)
	}
	ip(t, "-n b link set vx-net down")
	if err := ping(t, a, probe.Request{Target: hosts[1].endpoint.Address, Device: "vx-net", Source: a.endpoint.Address}, 300*time.Millisecond); !errors.Is(err, probe.ErrSilent) {
		t.Errorf("a host whose device is down: %v", err)
	}
	if err := ping(t, a, probe.Request{Target: netip.MustParseAddr("172.31.0.2")}, 10*time.Second); err != nil {
		t.Errorf("by the underlay: %v", err)
	}
}
