// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package route

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/route"
)

// atFirst calls the function at the first write.
type atFirst func()

func (f *atFirst) Write(data []byte) (int, error) {
	if do := *f; do != nil {
		*f = nil
		do()
	}
	return len(data), nil
}

// TestReplacedMeanwhile: a route of another program that takes the place of ours, or comes beside it, while the
// next hops of ours are changed stays, and is reported. Ours does not stay beside it.
func TestReplacedMeanwhile(t *testing.T) {
	for name, test := range map[string]struct{ first, second, command, want string }{
		"IPv4":             {"10.60.2.0/26", "10.60.4.0/26", "replace 10.60.4.0/26 via 172.31.0.254 proto 99", "10.60.4.0/26 via 172.31.0.254 dev eth0 proto 99"},
		"IPv6":             {"fd60::200/122", "fd60::400/122", "replace fd60::400/122 via fd31::fe proto 99", "fd60::400/122 via fd31::fe dev eth0 proto 99"},
		"IPv6, joined":     {"fd60::200/122", "fd60::400/122", "append fd60::400/122 via fd31::fe proto 99", "fd60::400/122 via fd31::fe dev eth0 proto 99"},
		"IPv6, of no hop":  {"fd60::200/122", "fd60::400/122", "replace fd60::400/122 dev eth0 proto 99", "fd60::400/122 dev eth0 proto 99"},
		"IPv6, of another": {"fd60::200/122", "fd60::400/122", "replace unreachable fd60::400/122 dev lo proto 99", "7 fd60::400/122 dev lo proto 99"},
	} {
		t.Run(name, func(t *testing.T) {
			hosts := newHosts(t, 2)
			p, a := pool(ipam.ModeRouted), hosts[0]
			var meanwhile atFirst
			a.table = route.New(route.Options{Dir: a.dir, Logger: hclog.New(&hclog.LoggerOptions{Level: hclog.Debug, Output: &meanwhile})})
			a.device(t, p)
			first, second := netip.MustParsePrefix(test.first), netip.MustParsePrefix(test.second)
			apply := func(host string) (report route.Report) {
				e := ipam.Endpoint{Address: netip.MustParseAddr("172.31.0." + host), LinkLocal: netip.MustParseAddr("fe80::" + host)}
				a.do(t, func() (err error) {
					report, err = a.table.Apply(p, a.blocks, []route.Target{{Block: first, Node: "b", Endpoint: e}, {Block: second, Node: "b", Endpoint: e}})
					return err
				})
				return report
			}
			apply("2")
			meanwhile = func() { spoil(t, a, "route "+test.command) }
			apply("3")
			shown := func() string {
				return ip(t, "-n a -N %s route show %s", map[bool]string{true: "-4", false: "-6"}[second.Addr().Is4()], second)
			}
			routes := shown()
			if meanwhile != nil || !strings.HasPrefix(routes, test.want) {
				t.Errorf("the route of another program is not the first one:\n%s", routes)
			}
			if r := apply("3").Routes; r[0].State != route.Installed || r[1].State != route.Conflict {
				t.Errorf("%+v", r)
			}
			if text := a.tables(t); strings.Contains(text, "via 172.31.0.2") || strings.Contains(text, "via fe80::2") {
				t.Errorf("left:\n%s", text)
			}
			if routes := shown(); strings.Count(routes, "dev") != 1 || !strings.HasPrefix(routes, test.want) {
				t.Errorf("beside the route of another program:\n%s", routes)
			}
		})
	}
}

// TestOtherSource: routes get another source address although their next hop stays.
func TestOtherSource(t *testing.T) {
	hosts := newHosts(t, 2)
	p, a, b := pool(ipam.ModeVXLAN), hosts[0], hosts[1]
	join(t, p, hosts)
	a.apply(t, p, hosts)
	ip(t, "-n a address add fd31::9/64 dev eth0 nodad")
	ip(t, "-n a address del fd31::1/64 dev eth0")
	a.apply(t, p, hosts)
	if routes := ip(t, "-n a -6 route show %s", b.blocks[1]); !strings.Contains(routes, "src fd31::9 ") || strings.Count(routes, "dev") != 1 {
		t.Errorf("want the source fd31::9:\n%s", routes)
	}
}
