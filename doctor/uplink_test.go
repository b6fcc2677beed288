// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/cluster/forwarding"
	"github.com/allocnet/allocnet/internal/netns"
)

// TestUplink: what a network asks of the host's interfaces, and bridges that are larger than the default route.
func TestUplink(t *testing.T) {
	eth0 := func(addresses ...string) netns.Interface {
		i := netns.Interface{Name: "eth0", Kind: "device", MTU: 1500}
		for _, a := range addresses {
			i.Addresses = append(i.Addresses, netip.MustParsePrefix(a))
		}
		return i
	}
	bridge := func(mtu int) netns.Interface { return netns.Interface{Name: "br0", Kind: "bridge", MTU: mtu} }
	uplink := forwarding.Interface{Name: "eth0", MTU: 1500}
	for name, c := range map[string]struct {
		options string
		uplink  forwarding.Interface
		links   []netns.Interface
		want    string
	}{
		"the host's own address":  {`{"egressAddress": ["192.0.2.10", "2001:db8::10"]}`, uplink, []netns.Interface{eth0("192.0.2.10/24", "2001:db8::10/64")}, ""},
		"an address of no one":    {`{"egressAddress": ["192.0.2.10", "2001:db8::10"]}`, uplink, []netns.Interface{eth0("192.0.2.10/24")}, "2001:db8::10"},
		"of one rule":             {`{"egressAddress": [{"jobs": ["a"], "addresses": ["192.0.2.11"]}, {"addresses": ["192.0.2.10"]}]}`, uplink, []netns.Interface{eth0("192.0.2.10/24")}, "192.0.2.11"},
		"an interface of no one":  {`{"publishAddress": {"addresses": "192.0.2.50", "interface": "eth9", "ipam": {"type": "allocnet-ipam", "pool": "p", "ranges": [{"subnet": "192.0.2.0/24"}], "reserved": ["192.0.2.50/32"]}}}`, uplink, []netns.Interface{eth0("192.0.2.10/24")}, "publishes addresses on eth9"},
		"both families":           {`{"publish": "both"}`, uplink, []netns.Interface{eth0("192.0.2.10/24", "2001:db8::10/64")}, ""},
		"families of two":         {`{"publish": "both"}`, uplink, []netns.Interface{eth0("192.0.2.10/24"), {Name: "eth1", Addresses: eth0("2001:db8::10/64").Addresses}}, "no interface of this host has addresses of both"},
		"loopback has both":       {`{"publish": "both"}`, uplink, []netns.Interface{{Name: "lo", Addresses: eth0("127.0.0.1/8", "::1/128").Addresses}}, "no interface of this host has addresses of both"},
		"no default route":        {`{"mtuFrom": "uplink"}`, forwarding.Interface{}, nil, "no default route"},
		"a default route":         {`{"mtuFrom": "uplink"}`, uplink, []netns.Interface{bridge(1500)}, ""},
		"a bridge that is larger": {`{"mtuFrom": "uplink"}`, uplink, []netns.Interface{bridge(9000)}, "has the MTU 9000"},
		"larger by itself":        {`{}`, uplink, []netns.Interface{bridge(9000)}, "has the MTU 9000"},
		"another bridge":          {`{}`, uplink, []netns.Interface{{Name: "br1", Kind: "bridge", MTU: 9000}}, ""},
	} {
		networks := load(t, map[string]string{"a.conflist": `{"cniVersion": "1.0.0", "name": "a", "allocnet": ` + c.options + `, "plugins": [
			{"type": "bridge", "bridge": "br0", "isGateway": true, "ipMasq": true, "ipam": {"type": "host-local", "subnet": "10.0.0.0/24"}}, {"type": "portmap", "capabilities": {"portMappings": true}}]}`})
		r := &Report{}
		uplinks(r, networks, c.uplink, func() ([]netns.Interface, error) { return c.links, nil })
		if c.want == "" && len(r.Findings) == 0 {
			continue
		}
		if len(r.Findings) != 1 || c.want == "" || !strings.Contains(r.Findings[0].Problem, c.want) {
			t.Errorf("%s: %+v, want %q", name, r.Findings, c.want)
		}
	}
	r := &Report{}
	uplinks(r, load(t, map[string]string{}), uplink, func() ([]netns.Interface, error) { return nil, errors.New("unknown") })
	if len(r.Findings) != 0 {
		t.Errorf("without links: %+v", r.Findings)
	}
}
