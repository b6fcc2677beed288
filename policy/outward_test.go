// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package policy

import (
	"strings"
	"testing"
)

// TestOutwardOptions: an option that no plugin would follow is refused, and so is another value.
func TestOutwardOptions(t *testing.T) {
	const portmap = `{"type": "portmap", "capabilities": {"portMappings": true}}`
	for _, c := range []struct{ options, plugins, want string }{
		{`{"mtuFrom": "uplink"}`, `{"type": "bridge"}`, ""},
		{`{"mtuFrom": "uplink"}`, `{"type": "bridge", "mtu": 0}`, ""},
		{`{"mtuFrom": "uplink"}`, `{"type": "macvlan"}`, ""},
		{`{"mtuFrom": "uplink"}`, `{"type": "bridge", "mtu": 1400}`, `has "mtu": 1400`},
		{`{"mtuFrom": "uplink"}`, `{"type": "host-device"}`, `no key "mtu"`},
		{`{"mtuFrom": "up"}`, `{"type": "bridge"}`, `want "uplink"`},
		{`{"publish": "both"}`, `{"type": "bridge"}, ` + portmap, ""},
		{`{"publish": "both"}`, `{"type": "bridge"}`, "portMappings"},
		{`{"publish": "ipv6"}`, `{"type": "bridge"}, ` + portmap, `want "both"`},
	} {
		_, err := Of(network(t, "web", c.options, c.plugins))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s with %s: %v, want %q", c.options, c.plugins, err, c.want)
		}
	}
}
