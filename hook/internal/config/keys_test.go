// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/hook/internal/kernel"
)

// host has all links.
type host struct{ kernel.Host }

func (host) LinkMTU(string) (int, bool, error) { return 1500, true, nil }

// TestIsolatedNetworks: what cannot be isolated cannot be attached, also for what another network is.
func TestIsolatedNetworks(t *testing.T) {
	dir := t.TempDir()
	for name, conf := range map[string]string{
		"a": `"allocnet": {"isolation": "strict"}, "plugins": [{"type": "bridge", "bridge": "br0", "isGateway": true, "ipam": {"type": "host-local", "subnet": "10.0.0.0/24"}}]`,
		"b": `"plugins": [{"type": "bridge", "bridge": "br0", "isGateway": true, "ipam": {"type": "host-local", "subnet": "10.0.1.0/24"}}]`,
		"c": `"allocnet": {"isolation": "network"}, "plugins": [{"type": "macvlan", "master": "eth0", "ipam": {"type": "host-local", "subnet": "10.0.2.0/24"}}]`,
		"d": `"allocnet": {"isolation": "network"}, "plugins": [{"type": "ptp", "ipam": {"type": "host-local", "subnet": "10.0.3.0/24"}}]`,
		"e": `"allocnet": {"isolation": "network", "executor": "plugins"}, "plugins": [{"type": "ptp", "ipam": {"type": "host-local", "subnet": "10.0.4.0/24"}}]`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name+".conflist"), fmt.Appendf(nil, `{"cniVersion": "1.0.0", "name": %q, %s}`, name, conf), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	catalog, err := cniconf.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"a": `network "a" has the bridge br0 of network "b"`, "b": `network "b" has the bridge br0 of network "a"`, "c": "interfaces of the plugin macvlan have no end on the host",
		"e": `its plugins are executed (executor in "allocnet" of the network is "plugins")`,
	}
	for n, err := range (Config{Host: host{}, PluginDirs: []string{dir}}).Usable(catalog).All() {
		if text := fmt.Sprint(err); (err == nil) != (want[n.Name] == "") || !strings.Contains(text, want[n.Name]) {
			t.Errorf("%s: %v, want %q", n.Name, err, want[n.Name])
		}
	}
}
