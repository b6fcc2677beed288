// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"strings"
	"testing"

	"github.com/allocnet/allocnet/doctor/forwarding"
)

// TestOutward: findings of networks of this host alone.
func TestOutward(t *testing.T) {
	const ipam = `"ipam": {"type": "host-local", "subnet": "10.0.0.0/24"}`
	for plugins, want := range map[string]string{
		`{"type": "bridge", "isGateway": true, ` + ipam + `}`:                                "MTU 1500, and eth0",
		`{"type": "bridge", "isGateway": true, "mtu": 1400, ` + ipam + `}`:                   "",
		`{"type": "bridge", ` + ipam + `}`:                                                   "",
		`{"type": "ptp", ` + ipam + `}`:                                                      "MTU 1500, and eth0",
		`{"type": "macvlan", "master": "eth0", ` + ipam + `}`:                                "",
		`{"type": "macvlan", "master": "eth0", ` + ipam + `}, {"type": "portmap"}`:           "published ports do not answer: the plugin macvlan",
		`{"type": "bridge", "mtu": 1400, "ipMasq": true, ` + ipam + `}, {"type": "portmap"}`: "",
	} {
		r := &Report{}
		outward(r, load(t, map[string]string{"a.conflist": `{"cniVersion": "1.0.0", "name": "a", "plugins": [` + plugins + `]}`}), &forwarding.Facts{Underlay: forwarding.Interface{Name: "eth0", MTU: 1400}})
		got := ""
		for _, f := range r.Findings {
			got += f.Problem
		}
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", plugins, got, want)
		}
	}
}
