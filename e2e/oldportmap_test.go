// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/sandbox"
)

// publishByOldPortmap attaches "old", whose portmap is one that ignores its backend nftables,
// as all before 1.6.0 do. The plugin directory has all plugins that are needed.
func publishByOldPortmap(t *testing.T, h *host) {
	t.Helper()
	sandbox.WriteFile(t, h.conf+"/60-native.conflist", `{"cniVersion": "1.0.0", "name": "native", "plugins": [
		{"type": "ptp", "ipam": {"type": "host-local", "dataDir": "/run/native", "ranges": [[{"subnet": "10.97.0.0/24"}]]}},
		{"type": "portmap", "backend": "nftables", "capabilities": {"portMappings": true}}]}`)
	t.Cleanup(func() { _ = os.RemoveAll("/run/native") })
	h.onlyOwn = true
	h.linkPlugins("ptp", "host-local")
	old := fmt.Sprintf("#!/bin/sh\nsed 's/\"backend\":\"nftables\",//' | %s/portmap\n", sandbox.PluginDir())
	if err := os.WriteFile(filepath.Join(h.plugins, "portmap"), []byte(old), 0o700); err != nil {
		t.Fatal(err)
	}
	h.attach("old", "--primary", "native", "--publish", "8300:80")
	if rules := sandbox.Run(t, "iptables-save", "-t", "nat"); !strings.Contains(rules, "10.97.0.") {
		t.Fatalf("the old portmap has made no rules of iptables:\n%s", rules)
	}
}

// TestUpgradedPortmap: DEL of newer plugins does not remove what a portmap before 1.6.0 has made.
// gc does.
func TestUpgradedPortmap(t *testing.T) {
	h := newHost(t)
	publishByOldPortmap(t, h)
	h.removePlugins("portmap")
	h.linkPlugins("portmap")
	h.must("detach", "old")
	h.must("gc")
	if rules := sandbox.Run(t, "iptables-save", "-t", "nat"); strings.Contains(rules, "10.97.0.") {
		t.Errorf("the host still forwards a port to an address that is free:\n%s", rules)
	}
}

// TestCheckWithoutOldPortmap: it proves no damage that allocnet, which stands in for plugins that
// are not installed any more, looks for other rules than those have made.
func TestCheckWithoutOldPortmap(t *testing.T) {
	h := newHost(t)
	publishByOldPortmap(t, h)
	h.removePlugins("ptp", "host-local", "portmap")
	if o := h.allocnet("check", "old", "--json"); o.code != 0 && !strings.Contains(o.stdout, `"unknown": true`) {
		t.Errorf("ports that are forwarded count as damaged: %s%s", o.stdout, o.stderr)
	}
	h.must("detach", "old")
}
