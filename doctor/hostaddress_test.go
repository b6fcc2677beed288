// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/netns"
)

// TestSubnetsOfHost: the fix of an address that the bridge has already removes it.
func TestSubnetsOfHost(t *testing.T) {
	networks := load(t, map[string]string{"a.conflist": `{"cniVersion": "1.0.0", "name": "a", "plugins": [{"type": "bridge", "bridge": "br0", "isGateway": true, "ipam": {"type": "host-local", "subnet": "192.0.2.0/24"}}]}`})
	up0 := netns.Interface{Name: "up0", Up: true, Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.2/24")}}
	br0 := netns.Interface{Name: "br0", Up: true, Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/24")}}
	for name, test := range map[string]struct {
		links []netns.Interface
		fix   string
	}{"no": {[]netns.Interface{br0}, ""}, "before": {[]netns.Interface{up0}, "choose another subnet"}, "after": {[]netns.Interface{up0, br0}, "ip address del 192.0.2.1/24 dev br0"}} {
		r := &Report{}
		subnetsOfHost(r, networks, func() ([]netns.Interface, error) { return test.links, nil })
		if test.fix == "" && len(r.Findings) == 0 {
			continue
		}
		if len(r.Findings) != 1 || test.fix == "" || r.Findings[0].Severity != Error || !strings.Contains(r.Findings[0].Fix, test.fix) {
			t.Errorf("%s: %+v, want %q", name, r.Findings, test.fix)
		}
	}
}
