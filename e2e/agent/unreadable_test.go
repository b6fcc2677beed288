// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// TestRecordOfANewerFormat: one record that cannot be read is unknown, not dead,
// and the agent goes on with the others.
func TestRecordOfANewerFormat(t *testing.T) {
	h := newHost(t)
	for _, id := range []string{"dead", "newer", "running"} {
		if out, code := h.allocnet("attach", id, "--primary", "web"); code != 0 {
			t.Fatalf("attach: %d %s", code, out)
		}
	}
	record := filepath.Join(h.state, "allocations", "newer", "journal")
	readable, err := os.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte("99\n{}"))
	sandbox.WriteFile(t, record, fmt.Sprintf(`{"version":99,"sha256":"%x","record":{}}`+"\n", sum))
	for _, id := range []string{"dead", "newer"} {
		if err := netns.Remove(filepath.Join(netns.DefaultDir, id)); err != nil {
			t.Fatal(err)
		}
	}
	leases := func() string {
		return sandbox.Run(t, "grep", "-rhE", "^(dead|newer|running)", "/var/lib/cni/networks/web")
	}
	h.start()
	if left := leases(); strings.Contains(left, "dead") || !strings.Contains(left, "newer") || !strings.Contains(left, "running") {
		t.Errorf("leases after the first round:\n%s", left)
	}
	all := must[[]*api.Allocation](h)(h.client.Allocations(ctx))
	if len(all) != 2 || !strings.Contains(all[0].Error, "format version 99") || all[1].ID != "running" {
		t.Errorf("listed: %+v", all)
	}
	if out, code := h.allocnet("status"); code != 1 || !strings.Contains(out, "running") || !strings.Contains(out, "format version 99") {
		t.Errorf("status: %d %s", code, out)
	}
	if out, code := h.allocnet("cleanup", "newer"); code != 2 || !strings.Contains(out, "unknown whether its allocation lives") {
		t.Errorf("cleanup: %d %s", code, out)
	}
	h.end(unix.SIGTERM)
	sandbox.WriteFile(t, record, string(readable))
	for _, id := range []string{"newer", "running"} {
		if out, code := h.allocnet("detach", id); code != 0 {
			t.Errorf("detach: %d %s", code, out)
		}
	}
}
