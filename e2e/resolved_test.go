// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"os"
	"testing"

	"github.com/allocnet/allocnet/internal/sandbox"
)

// TestResolvedNamespacePath: a plugin that resolves CNI_NETNS finds no namespace, and says so. Its DEL succeeds when the
// namespace is gone, and nothing is left.
func TestResolvedNamespacePath(t *testing.T) {
	h := newHost(t)
	sandbox.WriteFile(t, h.plugins+"/resolving", "#!/bin/sh\n[ -z \"$CNI_NETNS\" ] || CNI_NETNS=$(readlink -f \"$CNI_NETNS\")\nexec "+sandbox.PluginDir()+"/bridge\n")
	if err := os.Chmod(h.plugins+"/resolving", 0o755); err != nil {
		t.Fatal(err)
	}
	sandbox.WriteFile(t, h.conf+"/86-resolved.conflist", `{"cniVersion": "1.0.0", "name": "resolved", "plugins": [
		{"type": "resolving", "bridge": "resolved0", "ipam": {"type": "host-local", "subnet": "10.82.0.0/24", "dataDir": "/run/resolved"}}]}`)
	sandbox.Run(t, "ip", "netns", "add", "resolved")
	h.refuse(1, []string{`failed to open netns "/"`}, "attach", "r1", "--netns", "/run/netns/resolved", "--primary", "resolved")
	sandbox.Run(t, "ip", "netns", "del", "resolved")
	h.must("detach", "r1")
	sandbox.Run(t, "ip", "link", "del", "resolved0")
}
