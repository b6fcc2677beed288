// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package route

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// TestProtocolName: with the file of the packages, iproute2 shows our routes by name, and no others.
func TestProtocolName(t *testing.T) {
	const dir = "/etc/iproute2/rt_protos.d" // the sandbox's
	data, err := os.ReadFile(filepath.Join(sandbox.Root(), "dist", "iproute2", "allocnet.conf"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	sandbox.WriteFile(t, filepath.Join(dir, "allocnet.conf"), string(data))
	hosts := newHosts(t, 2)
	join(t, pool(ipam.ModeRouted), hosts)
	if lines := strings.Fields(ip(t, "-n a route show proto allocnet")); len(lines) == 0 || lines[0] != "unreachable" || strings.Contains(strings.Join(lines, " "), "default") {
		t.Errorf("%q", lines)
	}
}
