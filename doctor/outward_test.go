// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/cluster/forwarding"
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
		`{"type": "vlan", "master": "eth0", ` + ipam + `}, {"type": "portmap"}`:              "published ports do not answer: the plugin vlan",
		`{"type": "host-device", "device": "eth1", ` + ipam + `}, {"type": "portmap"}`:       "published ports do not answer: the plugin host-device",
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

// TestOneDrop: what drops packets of several networks is one finding, whose fix is for each subnet.
func TestOneDrop(t *testing.T) {
	var found drops
	add := func(name, problem, fix string) {
		found.add(name, forwarding.Obstacle{Subject: "iptables", Problem: problem, Fix: fix})
	}
	add("a", "the policy", "1")
	add("b", "the policy", "2")
	add("a", "the policy", "3")
	add("a", "a rule", "4")
	var got []string
	for _, d := range found {
		got = append(got, fmt.Sprint(d.networks, " ", d.Problem, " ", d.Fix))
	}
	if want := []string{`["a" "b"] the policy 1; 2; 3`, `["a"] a rule 4`}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
