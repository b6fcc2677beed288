// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"testing"

	types "github.com/containernetworking/cni/pkg/types/100"

	"github.com/allocnet/allocnet/internal/netns"
)

// TestFindEnd: the name of the host's end of a pair is a hint, its MAC tells where it is unless several have that.
func TestFindEnd(t *testing.T) {
	veth := func(name, mac string) netns.Interface { return netns.Interface{Name: name, Kind: "veth", MAC: mac} }
	for name, test := range map[string]struct {
		links      map[string]bool
		interfaces []netns.Interface
		want       string
	}{
		"not renamed":   {map[string]bool{"veth1": true}, nil, "veth1"},
		"renamed":       {nil, []netns.Interface{veth("tap1", "02:00:00:00:00:0A"), veth("tap2", "02:00:00:00:00:0b")}, "tap1"},
		"gone":          {nil, []netns.Interface{veth("tap2", "02:00:00:00:00:0b")}, ""},
		"a MAC of many": {nil, []netns.Interface{veth("tap1", "02:00:00:00:00:0a"), veth("tap2", "02:00:00:00:00:0a")}, ""},
		"a bridge with that MAC": {nil, []netns.Interface{
			{Name: "br0", Kind: "bridge", MAC: "02:00:00:00:00:0a"}, veth("tap1", "02:00:00:00:00:0a"),
		}, "tap1"},
	} {
		t.Run(name, func(t *testing.T) {
			host := &fakeHost{links: test.links, interfaces: test.interfaces}
			if got, err := findEnd(host, &types.Interface{Name: "veth1", Mac: "02:00:00:00:00:0a"}); err != nil || got != test.want {
				t.Errorf("%q, %v, want %q", got, err, test.want)
			}
		})
	}
}
