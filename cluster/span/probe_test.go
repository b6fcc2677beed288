// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package span

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/ipam/peers"
	"github.com/allocnet/allocnet/cluster/route"
	"github.com/allocnet/allocnet/internal/echo"
)

// TestProbeOf: a probe goes the way of the packets, and to no host that could not reply.
func TestProbeOf(t *testing.T) {
	node, hop := netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("fe80::2")
	routed := route.Route{Via: hop, Device: "eth0", Mode: ipam.ModeRouted, State: route.Installed}
	ipv4 := route.Route{Via: node, Device: "vx-web", Mode: ipam.ModeVXLAN, State: route.Installed}
	ipv6 := route.Route{Via: hop, Device: "vx-web", Mode: ipam.ModeVXLAN, State: route.Installed}
	refused := ipv4
	refused.State = route.Refused
	for name, test := range map[string]struct {
		routes []route.Route
		blocks bool
		want   string
	}{
		"routed, by its address": {[]route.Route{refused, routed}, false, `10.0.0.2 ""`},
		"VXLAN":                  {[]route.Route{ipv4, ipv6}, false, `10.0.0.2 "vx-web"`},
		"VXLAN, IPv6 alone":      {[]route.Route{ipv6}, true, `fe80::2%vx-web "vx-web"`},
		"it has no route back":   {[]route.Route{ipv6}, false, `invalid IP ""`},
		"refused":                {[]route.Route{refused}, true, `invalid IP ""`},
	} {
		p := probeOf(test.routes, node, test.blocks)
		requireText(t, name, fmt.Sprintf("%s %q", p.Target, p.Device), test.want)
	}
}

// TestProbes: each host is probed every 15 s, a lost packet is none, and a silent host is shown.
func TestProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, Settings{})
		h.keeps(true, config(t, "routed"))
		counts, lost := map[string]int{}, 0
		h.config.Ping = func(ctx context.Context, r echo.Request) (time.Duration, error) {
			h.mu.Lock()
			defer h.mu.Unlock()
			counts[r.Target.String()]++
			switch {
			case r.Target.String() == "10.0.0.3":
				return 0, echo.ErrSilent
			case lost > 0:
				lost--
				return 0, echo.ErrSilent
			}
			return time.Millisecond, nil
		}
		end := h.run(t)
		defer end()
		h.peers <- answer{blocks: peers.Blocks{Remote: []peers.Remote{
			block("10.91.0.0/26", "n1", "10.0.0.2", 5), block("10.91.1.0/26", "n1", "10.0.0.2", 6), block("10.91.0.64/26", "n2", "10.0.0.3", 7),
		}}}
		settle()
		if p := h.Status()[0].Nodes[0].Probe; !p.Target.IsValid() || !p.Time.IsZero() {
			t.Errorf("before the first: %+v", p)
		}
		time.Sleep(time.Hour)
		h.set(func() {
			if a, b := counts["10.0.0.2"], counts["10.0.0.3"]; a < 230 || a > 241 || b < 3*230 || b > 3*241 {
				t.Errorf("%d and %d requests in an hour", a, b)
			}
		})
		nodes := h.Status()[0].Nodes
		if a, b := nodes[0].Probe, nodes[1].Probe; a.Err != nil || a.Took != time.Millisecond || time.Since(a.Time) > 2*probePause || !errors.Is(b.Err, echo.ErrSilent) {
			t.Errorf("probes %+v, %+v", a, b)
		}
		h.set(func() { lost = probeAttempts - 1 })
		time.Sleep(2 * probePause)
		if p := h.Status()[0].Nodes[0].Probe; p.Err != nil || lost > 0 {
			t.Errorf("after lost packets: %+v, %d are still to be lost", p, lost)
		}
	})
}
