// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// TestForeignPorts: ports of isolated bridges that are not of allocations are told; without isolation they are the operator's business.
func TestForeignPorts(t *testing.T) {
	names := func(bridge string) ([]string, error) {
		return map[string][]string{"br0": {"eth9", "eth1"}, "br1": nil}[bridge], map[string]error{"br2": errors.New("no such device")}[bridge]
	}
	for level, test := range map[string]struct{ bridge, want string }{
		"strict":        {"br0", `error ip link set eth1 nomaster, error ip link set eth9 nomaster, `},
		"network":       {"br0", `warning ip link set eth1 nomaster, warning ip link set eth9 nomaster, `},
		"none":          {"br0", ""},
		"strict, own":   {"br1", ""},
		"network, gone": {"br2", "warning run allocnet doctor again, "},
	} {
		value, _, _ := strings.Cut(level, ",")
		networks := load(t, map[string]string{"a.conflist": fmt.Sprintf(`{"cniVersion": "1.0.0", "name": "a", "allocnet": {"isolation": %q},
			"plugins": [{"type": "bridge", "bridge": %q, "isGateway": true, "ipam": {"type": "static"}}]}`, value, test.bridge)})
		r, got := &Report{}, ""
		foreignPorts(r, networks, names)
		for _, f := range r.Findings {
			fix, _, _ := strings.Cut(f.Fix, ",")
			got += string(f.Severity) + " " + fix + ", "
		}
		if got != test.want {
			t.Errorf("%s: %q, want %q", level, got, test.want)
		}
	}
}
