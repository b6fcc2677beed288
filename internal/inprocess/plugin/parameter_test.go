// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/allocnet/allocnet/internal/inprocess/remedy"
	"github.com/allocnet/allocnet/internal/netns/netnstest"
	"github.com/allocnet/allocnet/internal/roottest"
)

// TestRootParametersAreComparedByValue: the kernel prints lists, ranges, masks, numbers of other bases and
// what is beyond bounds in forms of its own.
func TestRootParametersAreComparedByValue(t *testing.T) {
	roottest.Require(t)
	for key, test := range map[string]struct{ values, others []string }{
		"net/ipv4/ip_local_reserved_ports":           {[]string{"8080,8081", "8080-8081", "1,3-5,2", ""}, []string{"7"}},
		"net/ipv4/ping_group_range":                  {[]string{"0 2147483647", "0\t2147483647", " 0   2147483647 "}, []string{"0 1"}},
		"net/ipv4/tcp_rmem":                          {[]string{"4096 87380 16777216", "4096\t87380\t0xffffff"}, []string{"4096 87380 8388608"}},
		"net/ipv4/ip_local_port_range":               {[]string{"32768 60999", "0x8000 60999"}, []string{"1024 2000"}},
		"net/ipv4/tcp_congestion_control":            {[]string{"reno"}, nil},
		"net/ipv4/conf/eth0/rp_filter":               {[]string{"1", "01", " 1"}, []string{"2"}},
		"net/ipv6/conf/eth0/dad_transmits":           {[]string{"0", "3", "0x3"}, []string{"4"}},
		"net/ipv4/neigh/eth0/base_reachable_time_ms": {[]string{"30000", "031000"}, []string{"20000"}},
		"net/ipv4/tcp_fastopen":                      {[]string{"0x3", "3", "03"}, []string{"1"}},
		"net/core/somaxconn":                         {[]string{"512", " 0x200"}, []string{"100"}},
	} {
		for _, value := range test.values {
			t.Run(key+"="+value, func(t *testing.T) {
				netnstest.Run(t, func() error {
					c := &Call{IfName: "eth0", Repair: &remedy.Repair{DryRun: true}}
					if err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "eth0"}}); err != nil {
						return err
					}
					if err := c.Sysctls.Set(key, value); err != nil {
						return err
					}
					if err := c.EnsureSysctl(key, value); err != nil || c.Repair.Found() {
						t.Errorf("found %v, %v", c.Repair.Missing, err)
					}
					for _, other := range test.others {
						c.Repair.Missing = nil
						if err := c.Sysctls.Set(key, other); err != nil {
							return err
						}
						if err := c.EnsureSysctl(key, value); err != nil || len(c.Repair.Missing) != 1 {
							t.Errorf("of %q found %v, %v", other, c.Repair.Missing, err)
						}
					}
					return nil
				})
			})
		}
	}
}
