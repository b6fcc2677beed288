// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniconf

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/netns"
)

// drafted returns the network of a draft.
func drafted(t *testing.T, d Draft) *Network {
	t.Helper()
	data, err := d.ConfList()
	if err != nil {
		t.Fatal(err)
	}
	n, err := ParseNetwork("/conf/"+d.Name+".conflist", data)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func ownRoute(to, link string) netns.OwnRoute {
	return netns.OwnRoute{Destination: netip.MustParsePrefix(to), Interface: link}
}

// TestCheckFree: a new network has no bridge and no address of others, nor what the host reaches elsewhere.
func TestCheckFree(t *testing.T) {
	bridge := func(name, link, subnet string) Draft {
		return Draft{Name: name, Type: "bridge", Bridge: link, Subnets: prefixes(subnet)}
	}
	static, err := ParseNetwork("/conf/static.conflist", []byte(`{"cniVersion": "1.0.0", "name": "static", "plugins": [{"type": "macvlan", "master": "eth0",
		"ipam": {"type": "static", "addresses": [{"address": "10.50.0.7/24"}]}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	others := []*Network{drafted(t, bridge("web", "web0", "10.88.0.0/16")), static}
	routes := []netns.OwnRoute{ownRoute("10.1.0.0/24", "eth0"), ownRoute("10.1.0.9/32", "eth0"), ownRoute("192.0.2.0/24", "")}
	for name, test := range map[string]struct {
		draft Draft
		want  string
	}{
		"free":               {bridge("new", "new0", "10.42.0.0/24"), ""},
		"bridge of another":  {bridge("new", "web0", "10.42.0.0/24"), `bridge web0 is that of network "web"`},
		"within a subnet":    {bridge("new", "new0", "10.88.5.0/24"), `overlaps 10.88.0.0/16 of network "web"`},
		"around a subnet":    {bridge("new", "new0", "10.0.0.0/8"), `overlaps`},
		"of the IPAM static": {bridge("new", "new0", "10.50.0.0/16"), `overlaps 10.50.0.0/24 of network "static"`},
		"of the host":        {bridge("new", "new0", "10.1.0.0/24"), "the route of this host to 10.1.0.0/24 dev eth0"},
		"unreachable":        {bridge("new", "new0", "192.0.2.0/26"), "the route of this host to 192.0.2.0/24"},
		"by its own bridge":  {bridge("new", "eth0", "10.1.0.0/24"), ""},
		"by its master":      {Draft{Name: "new", Type: "macvlan", Master: "eth0", Subnets: prefixes("10.1.0.0/24")}, ""},
		"by another link":    {Draft{Name: "new", Type: "macvlan", Master: "eth1", Subnets: prefixes("10.1.0.0/24")}, "dev eth0"},
	} {
		err := drafted(t, test.draft).CheckFree(others, routes)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

// TestFreeSubnet: the first that no network and no route has.
func TestFreeSubnet(t *testing.T) {
	web := drafted(t, Draft{Name: "web", Type: "ptp", Subnets: prefixes("10.88.0.0/16")})
	for want, routes := range map[string][]netns.OwnRoute{
		"10.89.0.0/24": nil,
		"10.89.2.0/24": {ownRoute("10.89.0.0/23", "eth0")},
		"10.92.0.0/24": {ownRoute("10.90.0.0/15", "eth0"), ownRoute("10.89.0.0/16", "eth0")},
	} {
		if got, err := FreeSubnet([]*Network{web}, routes); err != nil || got.String() != want {
			t.Errorf("%v: %s, %v, want %s", routes, got, err, want)
		}
	}
	if got, err := FreeSubnet(nil, []netns.OwnRoute{ownRoute("10.0.0.0/8", "tun0")}); err == nil {
		t.Errorf("chose %s of a subnet that the host reaches elsewhere", got)
	}
}
