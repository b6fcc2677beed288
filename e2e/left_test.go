// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/allocnet/allocnet/internal/sandbox"
)

// leavingNetwork has one plugin of each kind that makes something on the host; %[1]s is the backend of rules.
const leavingNetwork = `{"cniVersion": "1.0.0", "name": "leaving", "plugins": [
	{"type": "bridge", "bridge": "leaving0", "isGateway": true, "ipMasq": true, "ipMasqBackend": "%[1]s", "macspoofchk": true,
		"ipam": {"type": "host-local", "dataDir": "/run/leaving", "ranges": [[{"subnet": "10.86.0.0/24"}], [{"subnet": "fd00:86::/64"}]]}},
	{"type": "portmap", "backend": "%[1]s", "capabilities": {"portMappings": true}},
	{"type": "firewall"},
	{"type": "bandwidth", "ingressRate": 8000000, "ingressBurst": 8000000, "egressRate": 8000000, "egressBurst": 8000000},
	{"type": "tuning", "mtu": 1400}]}`

// TestDelThatLeaves: plugins report success for DEL and have removed nothing, or only the lease. What they have left is removed.
func TestDelThatLeaves(t *testing.T) {
	const nothing, lease = "exit 0", `exec "$CNI_PATH/host-local"`
	all := []string{"bridge", "portmap", "firewall", "bandwidth", "tuning"}
	for name, test := range map[string]struct {
		backend, del string
		leaving      []string
		// nightly is whether test-all alone has it: another case has the plugin.
		nightly bool
	}{
		"bridge with iptables":   {"iptables", nothing, all[:1], false},
		"bridge with nftables":   {"nftables", nothing, all[:1], true},
		"all but the lease":      {"iptables", lease, all[:1], true},
		"portmap with iptables":  {"iptables", nothing, all[1:2], false},
		"portmap with nftables":  {"nftables", nothing, all[1:2], true},
		"firewall":               {"iptables", nothing, all[2:3], false},
		"bandwidth":              {"iptables", nothing, all[3:4], true},
		"tuning":                 {"iptables", nothing, all[4:], true},
		"all, but for the lease": {"nftables", lease, all, false},
	} {
		if testing.Short() && test.nightly {
			continue
		}
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			sandbox.WriteFile(t, h.conf+"/95-leaving.conflist", fmt.Sprintf(leavingNetwork, test.backend))
			h.onlyOwn = true
			h.linkPlugins(append(slices.Clone(all), "host-local")...)
			cycle := func() {
				h.attach("left", "--primary", "leaving", "--publish", "8320:80")
				h.must("detach", "left")
				sandbox.Run(t, "ip", "link", "delete", "leaving0")
				_ = os.RemoveAll("/run/leaving")
			}
			cycle()
			h.before = sandbox.Snapshot(t) // with what all attachments share
			for _, plugin := range test.leaving {
				h.removePlugins(plugin)
				text := fmt.Sprintf("#!/bin/sh\n[ \"$CNI_COMMAND\" != DEL ] || %s\nexec %s/%s\n", test.del, sandbox.PluginDir(), plugin)
				if err := os.WriteFile(filepath.Join(h.plugins, plugin), []byte(text), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			cycle()
		})
	}
}
