// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package local

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/cluster/ipam"
)

// TestDamaged: an address whose lease cannot be understood is used by someone, and without a
// readable history no address is given out that has a lease.
func TestDamaged(t *testing.T) {
	for name, content := range map[string]string{"empty": "", "binary": "\x00\xff\x00", "long": strings.Repeat("x", 1<<16)} {
		for _, length := range []int64{0, 5, 20} { // of a history, 8 bytes an address
			h := newHost(t, small)
			h.requireTake("a", "10.0.0.2")
			h.requireTake("b", "10.0.0.3")
			h.release("b")
			if err := os.WriteFile(h.path("10.0.0.2"), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(filepath.Join(h.dir, ipam.BlockName(h.blocks[0])), length); err != nil {
				t.Fatal(err)
			}
			got := []string{h.take("c"), h.take("d"), h.take("e")}
			if want := "10.0.0.3 10.0.0.4 10.0.0.5"; strings.Join(got, " ") != want {
				t.Errorf("lease %s, history of %d bytes: %q, want %s", name, length, got, want)
			}
			if got := h.take("f"); !strings.Contains(got, "no free address") {
				t.Errorf("lease %s, history of %d bytes: f gets %s", name, length, got)
			}
		}
	}
}
