// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package policy

import (
	"errors"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/cniconf"
)

// TestNarrow: a job may narrow its traffic where the network says so, and nowhere else.
func TestNarrow(t *testing.T) {
	for options, want := range map[string]bool{"": false, `{"narrow": false}`: false, `{"isolation": "strict"}`: false, `{"narrow": true}`: true, `{"narrow": true, "isolation": "strict"}`: true} {
		s := source(t, "n.conflist", options)
		for narrows, want := range map[bool]bool{true: want, false: true} {
			err := Check(Identity{}, Source{}, []Attachment{{Network: "n", Interface: "net1", Rules: s, Narrows: narrows}})
			var denied *DeniedError
			if (err == nil) != want || err != nil && (!errors.As(err, &denied) || denied.Rule != "narrow" || denied.File != "n.conflist") {
				t.Errorf("%s, narrows %t: %v", options, narrows, err)
			}
		}
		if s.Restrict() != strings.Contains(options, "isolation") || strings.Contains(s.Describe(), "jobs may narrow") != s.Narrow {
			t.Errorf("%s: restricts %t, %s", options, s.Restrict(), s.Describe())
		}
	}
}

// TestCheckNarrow: where the host does not see all packets nothing can be narrowed, and the key is refused.
func TestCheckNarrow(t *testing.T) {
	const ipam = `, "ipam": {"type": "host-local", "subnet": "10.0.0.0/24"}`
	for _, test := range []struct{ options, plugins, want string }{
		{`{"narrow": true}`, `{"type": "bridge", "isGateway": true` + ipam + `}`, ""},
		{`{"narrow": true}`, `{"type": "ptp"` + ipam + `}`, ""},
		{`{"narrow": true}`, `{"type": "bridge"` + ipam + `}`, `narrow true: network "n" cannot have it: the host is not the gateway of the bridge`},
		{`{"narrow": true, "acceptRA": true}`, `{"type": "ptp"` + ipam + `}`, `narrow true: network "n" cannot have it: with acceptRA its interfaces give themselves addresses`},
		{`{"narrow": true}`, `{"type": "macvlan", "master": "eth1"` + ipam + `}`, `narrow true: network "n" cannot have it: interfaces of the plugin macvlan have no end on the host`},
		{`{"narrow": true}`, `{"type": "host-device"}`, `narrow true: network "n" cannot have it: interfaces of the plugin host-device`},
		{`{"narrow": true, "isolation": "strict"}`, `{"type": "macvlan", "master": "eth1"` + ipam + `}`, `isolation "strict": network "n" cannot have it`},
		{`{"narrow": false}`, `{"type": "macvlan", "master": "eth1"` + ipam + `}`, ""},
	} {
		err := CheckIsolation(network(t, "n", test.options, test.plugins), func(*cniconf.Network) error { return nil })
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s with %s: %v, want %s", test.plugins, test.options, err, test.want)
		}
	}
}
