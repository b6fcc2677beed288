// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package route

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/route"
)

// crowd has the targets of many hosts behind the router, with some blocks each.
func crowd(hosts, blocks int) []route.Target {
	var all []route.Target
	for h := range hosts {
		e := ipam.Endpoint{Address: netip.AddrFrom4([4]byte{172, 31, 1, byte(10 + h)}), MAC: fmt.Sprintf("02:00:00:00:01:%02x", h)}
		for b := range blocks {
			n := h*blocks + b
			block := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 60, byte(16 + n/4), byte(n % 4 * 64)}), 26)
			if b == blocks-1 {
				block = netip.PrefixFrom(netip.MustParseAddr(fmt.Sprintf("fd60::%x", 0x4000+n%256*64)), 122)
			}
			all = append(all, route.Target{Block: block, Node: fmt.Sprintf("n%d", h), Endpoint: e})
		}
	}
	return all
}

// BenchmarkApply is with 200 hosts of 5 blocks: all of them new, one that comes and goes, and nothing
// new.
func BenchmarkApply(b *testing.B) {
	h, p, targets := newHosts(b, 2)[0], pool(ipam.ModeVXLAN), crowd(200, 5)
	apply := func(targets []route.Target) (report route.Report) {
		h.do(b, func() (err error) {
			report, err = h.table.Apply(p, h.blocks, targets)
			return err
		})
		return report
	}
	h.device(b, p)
	for name, before := range map[string]int{"nothing new": len(targets), "one new host": len(targets) - 5, "all new": 0} {
		b.Run(name, func(b *testing.B) {
			var spent time.Duration
			for b.Loop() {
				apply(targets[:before])
				start := time.Now()
				apply(targets)
				spent += time.Since(start)
			}
			b.ReportMetric(float64(spent.Microseconds())/1000/float64(b.N), "ms/apply")
		})
	}
}

// TestCrowd: the tables of many hosts are complete after one call, and a second one changes nothing.
func TestCrowd(t *testing.T) {
	h, p, targets := newHosts(t, 2)[0], pool(ipam.ModeVXLAN), crowd(200, 5)
	before := h.state(t)
	h.device(t, p)
	for _, want := range []int{len(targets) + 200*3 + 2, 0} { // routes, two neighbours and a forwarding for a host, two subnets
		h.do(t, func() error {
			report, err := h.table.Apply(p, h.blocks, targets)
			if report.Added != want || report.Replaced != min(want, 1) || report.Removed != 0 { // the guard is replaced
				t.Errorf("%d added, %d replaced, %d removed, want %d", report.Added, report.Replaced, report.Removed, want)
			}
			for _, r := range report.Routes {
				if r.State != route.Installed {
					t.Errorf("%+v", r)
				}
			}
			return err
		})
	}
	leave(t, []*host{h}, []string{before})
}
