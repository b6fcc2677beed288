// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniconf

import (
	"fmt"
	"strings"
	"testing"
)

// TestCheckRouted: a pool that spans hosts needs a plugin that forwards.
func TestCheckRouted(t *testing.T) {
	for plugin, want := range map[string]string{
		`"type": "ptp"`:                              "",
		`"type": "bridge", "isGateway": true`:        "",
		`"type": "bridge", "isDefaultGateway": true`: "",
		`"type": "bridge"`:                           `network "net": plugin bridge has the pool p of the mode routed, and does not forward to other hosts: want "isGateway": true in `,
		`"type": "macvlan", "isGateway": true`:       `network "net": plugin macvlan has the pool p of the mode routed, and does not forward to other hosts: want ptp, or bridge with "isGateway": true in `,
	} {
		for mode, want := range map[string]string{"routed": want, "flat": ""} {
			ipam := fmt.Sprintf(`"ipam": {"type": "allocnet-ipam", "pool": "p", "mode": %q, "ranges": [{"subnet": "10.0.0.0/24"}]}`, mode)
			list, err := ParseList([]byte(`{"cniVersion": "1.0.0", "name": "net", "plugins": [{` + plugin + `, ` + ipam + `}, {"type": "portmap"}]}`))
			if err != nil {
				t.Fatal(err)
			}
			n := &Network{Name: "net", Path: "net.conflist", List: list}
			got := fmt.Sprint(n.CheckRouted())
			if want == "" && got != "<nil>" || !strings.Contains(got, want) {
				t.Errorf("%s with %s: %s, want %q", plugin, mode, got, want)
			}
		}
	}
}

// TestRoutedPlugins: bridge and MTU have the plugins' defaults.
func TestRoutedPlugins(t *testing.T) {
	const ipam = `"ipam": {"type": "allocnet-ipam", "pool": "p", "mode": "vxlan", "ranges": [{"subnet": "10.0.0.0/24"}]}`
	list, err := ParseList([]byte(`{"cniVersion": "1.0.0", "name": "net", "plugins": [{"type": "bridge", ` + ipam + `}, {"type": "ptp", "mtu": 1400, ` + ipam + `}, {"type": "bridge", "bridge": "b", "ipam": {"type": "host-local"}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range (&Network{List: list}).RoutedPlugins() {
		got = append(got, fmt.Sprint(p.Type, " ", p.Bridge, " ", p.MTU, " ", p.Pool.Pool))
	}
	if strings.Join(got, ", ") != "bridge cni0 1500 p, ptp  1400 p" {
		t.Errorf("the plugins are %q", got)
	}
}
