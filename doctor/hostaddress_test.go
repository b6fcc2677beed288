// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/state"
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

// TestPortsElsewhere: a port on an address of the host, or on all of them, is none of them.
func TestPortsElsewhere(t *testing.T) {
	own := netip.MustParseAddr("192.0.2.2")
	for ip, warned := range map[string]bool{"": false, "0.0.0.0": false, "::": false, "192.0.2.2": false, "::ffff:192.0.2.2": false, "192.0.2.255": true, "224.0.0.1": true, "203.0.113.5": true, "2001:db8::9": true} {
		r := &Report{}
		a := state.Attachment{Interface: "eth0", CapabilityArgs: map[string]any{"portMappings": []any{map[string]any{"hostPort": 8090, "protocol": "tcp", "hostIP": ip}}}}
		portsElsewhere(r, state.Record{Allocation: state.Allocation{ID: "a"}, Attachments: []state.Attachment{a, {}}}, func(address netip.Addr) bool { return address == own })
		if got := len(r.Findings) == 1 && r.Findings[0].Severity == Warning && strings.Contains(r.Findings[0].Problem, "8090/tcp of eth0"); got != warned || len(r.Findings) > 1 {
			t.Errorf("%q: %+v", ip, r.Findings)
		}
	}
}
