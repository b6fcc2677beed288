// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"os"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/sandbox"
)

// TestFirewalldIsInstalledLater: what was attached in process is checked and removed in process
// after firewalld has been installed on a host without plugins.
func TestFirewalldIsInstalledLater(t *testing.T) {
	h := newHost(t)
	h.onlyOwn = true
	t.Setenv("ALLOCNET_EXECUTOR", "auto")
	defer os.RemoveAll("/run/walled")
	sandbox.WriteFile(t, h.conf+"/60-walled.conflist", `{"cniVersion": "1.0.0", "name": "walled", "plugins": [{"type": "ptp", "ipam": {"type": "host-local", "dataDir": "/run/walled", "ranges": [[{"subnet": "10.97.0.0/24"}]]}}, {"type": "firewall"}]}`)
	sandbox.Run(t, "ip", "netns", "add", "c1")
	defer sandbox.Run(t, "ip", "netns", "del", "c1")
	defer h.allocnet("cleanup", "c1", "--forget")
	h.attach("c1", "--netns", "/run/netns/c1", "--networks", "walled@net1")
	h.must("check", "c1")
	sandbox.Run(t, "mount", "-t", "tmpfs", "tmpfs", "/usr/share")
	defer sandbox.Run(t, "umount", "/usr/share")
	sandbox.Run(t, "mkdir", "-p", "/usr/share/dbus-1/system.d")
	sandbox.WriteFile(t, "/usr/share/dbus-1/system.d/FirewallD.conf", "<busconfig/>")
	t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/run/dbus/system_bus_socket")
	if o := h.allocnet("check", "c1"); o.code != 0 {
		t.Errorf("check: exit code %d: %s%s", o.code, o.stdout, o.stderr)
	}
	if o := h.allocnet("detach", "c1"); o.code != 0 || strings.Contains(o.stderr, "DEL failed") {
		t.Errorf("detach: exit code %d: %s", o.code, o.stderr)
	}
}
