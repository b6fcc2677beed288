// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netns

import (
	"net/netip"
	"testing"
)

// TestWhyBridgeStays: a bridge goes only where allocnet has made it and nothing else uses it.
func TestWhyBridgeStays(t *testing.T) {
	gateway := netip.MustParsePrefix("10.42.0.1/24")
	bridge := Interface{Name: "storage0", Index: 7, Kind: "bridge", Group: LinkGroup, Addresses: []netip.Prefix{gateway}}
	with := func(change func(*Interface)) Interface {
		changed := bridge
		change(&changed)
		return changed
	}
	for name, test := range map[string]struct {
		links []Interface
		want  string
	}{
		"gone":          {nil, ""},
		"unused":        {[]Interface{bridge, {Name: "eth0", Index: 2}, {Name: "pair", Index: 9, Link: 7, LinkOutside: true}}, ""},
		"of another":    {[]Interface{with(func(i *Interface) { i.Group = 0 })}, "allocnet has not made it"},
		"no bridge":     {[]Interface{with(func(i *Interface) { i.Kind = "dummy" })}, "it is no bridge"},
		"renamed":       {[]Interface{with(func(i *Interface) { i.Name, i.AlternativeNames = "br0", []string{"storage0"} })}, "it is br0, which has the name beside its own"},
		"port":          {[]Interface{bridge, {Name: "eth0", Index: 2, Master: 7}}, "it has the port eth0"},
		"link on it":    {[]Interface{bridge, {Name: "storage0.5", Index: 9, Link: 7}}, "the link storage0.5 is on it"},
		"other address": {[]Interface{with(func(i *Interface) { i.Addresses = []netip.Prefix{netip.MustParsePrefix("10.43.0.1/24")} })}, "it has the address 10.43.0.1/24"},
	} {
		if got := whyBridgeStays(test.links, "storage0", []netip.Prefix{gateway}); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
