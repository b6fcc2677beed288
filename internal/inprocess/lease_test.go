// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"fmt"
	"strings"
	"testing"

	"github.com/containernetworking/cni/libcni"
)

// TestLeases: with addresses that a server may change, nothing that depends on addresses is executed in process.
func TestLeases(t *testing.T) {
	for plugins, want := range map[string]string{
		`{"type": "macvlan", IPAM}`:                                          "",
		`{"type": "bridge", IPAM}, {"type": "tuning"}`:                       "",
		`{"type": "macvlan", IPAM}, {"type": "bandwidth"}`:                   "",
		`{"type": "vlan", IPAM}`:                                             "",
		`{"type": "ipvlan", IPAM}`:                                           `plugin "ipvlan": has the MAC of its master`,
		`{"type": "ptp", IPAM}`:                                              `plugin "ptp": depends on addresses`,
		`{"type": "macvlan", IPAM}, {"type": "portmap"}`:                     `plugin "portmap": depends on addresses`,
		`{"type": "bridge", IPAM}, {"type": "firewall"}`:                     `plugin "firewall": depends on addresses`,
		`{"type": "bridge", "isGateway": true, IPAM}`:                        `plugin "bridge": isGateway, isDefaultGateway and ipMasq depend`,
		`{"type": "bridge", "isDefaultGateway": true, IPAM}`:                 `plugin "bridge": isGateway, isDefaultGateway and ipMasq depend`,
		`{"type": "bridge", "ipMasq": true, IPAM}`:                           `plugin "bridge": isGateway, isDefaultGateway and ipMasq depend`,
		`{"type": "macvlan", "ipam": {"type": "dhcp", "x": 1}}`:              `unknown field "x"`,
		`{"type": "macvlan", "ipam": {"type": "dhcp", "provide": []}}`:       `unknown field "provide"`,
		`{"type": "macvlan", "ipam": {"type": "dhcp", "identity": "group"}}`: `identity of dhcp is "group"`,
	} {
		list, err := libcni.NetworkConfFromBytes(fmt.Appendf(nil, `{"cniVersion": "1.0.0", "name": "n", "plugins": [%s]}`, strings.ReplaceAll(plugins, "IPAM", `"ipam": {"type": "dhcp"}`)))
		if err != nil {
			t.Fatal(err)
		}
		if !UsesDHCP(list) {
			t.Errorf("%s: no DHCP", plugins)
		}
		if err := Supports(list, nil); (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", plugins, err, want)
		}
	}
}

// TestLeaseKeys: those of allocnet are told from those of the plugin dhcp, none of which is a mistake.
func TestLeaseKeys(t *testing.T) {
	for ipam, want := range map[string]string{
		`{"type": "dhcp"}`: "", `{"type": "dhcp", "provide": []}`: "", `{"type": "static", "identity": "job"}`: "",
		`{"type": "dhcp", "identity": "allocation"}`: "identity", `{"type": "dhcp", "hostname": "job"}`: "hostname",
	} {
		list, err := libcni.NetworkConfFromBytes(fmt.Appendf(nil, `{"cniVersion": "1.0.0", "name": "n", "plugins": [{"type": "macvlan", "ipam": %s}]}`, ipam))
		if err != nil {
			t.Fatal(err)
		}
		if got := LeaseKey(list); got != want {
			t.Errorf("%s: %q, want %q", ipam, got, want)
		}
	}
	for _, key := range otherKeys[dhcpIPAM] {
		if found := mistakesOf(t, "macvlan", "dhcp", fmt.Sprintf(`{"ipam": {"type": "dhcp", %q: null}}`, key)); found != nil {
			t.Errorf("%s is a mistake: %s", key, found)
		}
	}
	if found := mistakesOf(t, "macvlan", "dhcp", `{"ipam": {"type": "dhcp", "identiti": null}}`); len(found) != 1 || !strings.Contains(found[0], "did you mean identity?") {
		t.Errorf("got %s", found)
	}
}
