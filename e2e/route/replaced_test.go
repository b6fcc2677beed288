// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package route

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/allocnet/allocnet/ipam"
	"github.com/allocnet/allocnet/route"
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

// TestReplacedMeanwhile: a route of another program that takes the place of ours while the next hops of ours are
// changed stays, and is reported.
func TestReplacedMeanwhile(t *testing.T) {
	hosts := newHosts(t, 2)
	p, a := pool(ipam.ModeRouted), hosts[0]
	var meanwhile atFirst
	a.table = route.New(route.Options{Dir: a.dir, Logger: hclog.New(&hclog.LoggerOptions{Level: hclog.Debug, Output: &meanwhile})})
	a.device(t, p)
	first, second := netip.MustParsePrefix("10.60.2.0/26"), netip.MustParsePrefix("10.60.4.0/26")
	apply := func(via string) (report route.Report) {
		e := ipam.Endpoint{Address: netip.MustParseAddr(via)}
		a.do(t, func() (err error) {
			report, err = a.table.Apply(p, a.blocks, []route.Target{{Block: first, Node: "b", Endpoint: e}, {Block: second, Node: "b", Endpoint: e}})
			return err
		})
		return report
	}
	apply("172.31.0.2")
	meanwhile = func() { spoil(t, a, "route replace 10.60.4.0/26 via 172.31.0.254 proto 99") }
	apply("172.31.0.3")
	routes := ip(t, "-n a -N route show 10.60.4.0/26")
	if meanwhile != nil || !strings.HasPrefix(routes, "10.60.4.0/26 via 172.31.0.254 dev eth0 proto 99") {
		t.Errorf("the route of another program is not the first one:\n%s", routes)
	}
	if r := apply("172.31.0.3").Routes; r[0].State != route.Installed || r[1].State != route.Conflict {
		t.Errorf("%+v", r)
	}
	if text := a.tables(t); strings.Contains(text, "via 172.31.0.2") || strings.Contains(text, "10.60.4.0") {
		t.Errorf("left:\n%s", text)
	}
}
