// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/sandbox"
)

// TestLongPermanentErrors: what the kernel or a plugin refuses for good is attempted once, whatever
// executes the network; a range without a free address is attempted again.
func TestLongPermanentErrors(t *testing.T) {
	ipam := func(n int) string {
		return fmt.Sprintf(`"ipam": {"type": "host-local", "dataDir": "/run/unfit", "ranges": [[{"subnet": "10.81.%d.0/24"}]]`, n)
	}
	networks := map[string]string{
		"hairpin mode and promiscuous mode": `{"type": "bridge", "bridge": "unfit0", "promiscMode": true, "hairpinMode": true, ` + ipam(0) + `}}`,
		"failed to add route":               `{"type": "bridge", "bridge": "unfit0", "isGateway": true, ` + ipam(1) + `, "routes": [{"dst": "10.1.2.3/8"}]}}`,
		"already has an IP address":         `{"type": "bridge", "bridge": "unfit1", "isGateway": true, ` + ipam(2) + `}}`,
		"burst must also be set":            `{"type": "bridge", "bridge": "unfit0", ` + ipam(3) + `}}, {"type": "bandwidth", "ingressRate": 1000}`,
		"is not a bridge":                   `{"type": "bridge", "bridge": "unfit2", ` + ipam(4) + `}}`,
		"no_such_key":                       `{"type": "bridge", "bridge": "unfit0", ` + ipam(5) + `}}, {"type": "tuning", "sysctl": {"net.ipv4.no_such_key": "1"}}`,
		"nosuch0":                           `{"type": "macvlan", "master": "nosuch0", ` + ipam(6) + `}}`,
		"vlan":                              `{"type": "vlan", "master": "unfit1", "vlanId": 5000, ` + ipam(7) + `}}`,
		"invalid argument":                  `{"type": "bridge", "bridge": "unfit0", ` + ipam(8) + `}}, {"type": "tuning", "sysctl": {"net.ipv4.conf.IFNAME.rp_filter": "x"}}`,
		"too small":                         `{"type": "bridge", "bridge": "unfit0", "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.81.9.0/32"}]]}}`,
		"nosuchplugin":                      `{"type": "nosuchplugin"}`,
	}
	for _, executor := range []string{"plugins", "auto"} {
		t.Run(executor, func(t *testing.T) {
			h := newHost(t)
			t.Setenv("ALLOCNET_EXECUTOR", executor)
			sandbox.Run(t, "ip", "link", "add", "unfit1", "type", "bridge")
			sandbox.Run(t, "ip", "address", "add", "10.81.2.254/24", "dev", "unfit1")
			sandbox.Run(t, "ip", "link", "add", "unfit2", "type", "veth")
			for want, plugins := range networks {
				sandbox.WriteFile(t, h.conf+"/85-unfit.conflist", `{"cniVersion": "1.0.0", "name": "unfit", "plugins": [`+plugins+`]}`)
				o := h.allocnet("attach", "u1", "--primary", "unfit")
				if o.code == 0 || !strings.Contains(o.stderr, want) || strings.Contains(o.stderr, "attempts") {
					t.Errorf("exit code %d, want one attempt and %q:\n%s", o.code, want, o.stderr)
				}
			}
			sandbox.WriteFile(t, h.conf+"/85-unfit.conflist", `{"cniVersion": "1.0.0", "name": "unfit", "plugins": [{"type": "bridge", "bridge": "unfit0", "ipam": {
				"type": "host-local", "dataDir": "/run/unfit", "ranges": [[{"subnet": "10.81.20.0/24", "rangeStart": "10.81.20.2", "rangeEnd": "10.81.20.2"}]]}}]}`)
			sandbox.WriteFile(t, "/run/unfit/unfit/10.81.20.2", "another\r\neth0")
			h.refuse(1, []string{"no IP addresses available", "3 attempts"}, "attach", "u1", "--primary", "unfit") // until another one ends
			sandbox.Run(t, "rm", "-r", "/run/unfit")
			for _, link := range strings.Fields("unfit0 unfit1 unfit2") {
				sandbox.Run(t, "ip", "link", "del", link)
			}
		})
	}
}
