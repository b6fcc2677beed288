// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniconf

import (
	"fmt"
	"testing"

	"github.com/containernetworking/cni/libcni"
)

func TestHostAddresses(t *testing.T) {
	for plugin, want := range map[string]string{
		`"type": "bridge", "bridge": "br0", "isGateway": true, "ipam": {"type": "host-local", "subnet": "192.0.2.0/24"}`:                                 "[{br0 192.0.2.1/24}]",
		`"type": "bridge", "isDefaultGateway": true, "ipam": {"type": "host-local", "ranges": [[{"subnet": "192.0.2.0/24", "gateway": "192.0.2.254"}]]}`: "[{cni0 192.0.2.254/24}]",
		`"type": "bridge", "ipam": {"type": "host-local", "subnet": "192.0.2.0/24"}`:                                                                     "[]",
		`"type": "macvlan", "isGateway": true, "ipam": {"type": "host-local", "subnet": "192.0.2.0/24"}`:                                                 "[]",
		`"type": "ptp", "ipam": {"type": "host-local", "subnet": "2001:db8::/64"}`:                                                                       "[{ 2001:db8::1/64}]",
		`"type": "bridge", "isGateway": true, "ipam": {"type": "static", "addresses": [{"address": "192.0.2.9/24"}]}`:                                    "[{cni0 192.0.2.1/24}]",
		`"type": "bridge", "isGateway": true, "ipam": {"type": "static", "addresses": [{"address": "192.0.2.9/24", "gateway": "192.0.2.3"}]}`:            "[{cni0 192.0.2.3/24}]",
		`"type": "ptp", "ipam": {"type": "static", "addresses": [{"address": "192.0.2.9/24"}]}`:                                                          "[]",
		`"type": "bridge", "isGateway": true, "ipam": {"type": "dhcp"}`:                                                                                  "[]",
		`"type": "bridge", "isGateway": true, "ipam": {"type": "static", "addresses": [{"address": "nonsense"}]}`:                                        "[]",
	} {
		list, err := libcni.ConfListFromBytes(fmt.Appendf(nil, `{"cniVersion": "1.0.0", "name": "a", "plugins": [{%s}]}`, plugin))
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint((&Network{Name: "a", List: list}).HostAddresses()); got != want {
			t.Errorf("%s: %s, want %s", plugin, got, want)
		}
	}
}
