// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/sandbox"
)

// TestLongDemo runs what `make demo-cluster` runs, in a sandbox of its own.
func TestLongDemo(t *testing.T) {
	dir := t.TempDir()
	must(t, sandbox.Install(dir, "demo"))
	cmd := exec.Command(filepath.Join(dir, "demo"))
	cmd.Env = slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "ALLOCNET_SANDBOX=") })
	out, err := cmd.CombinedOutput()
	for _, want := range []string{"allocnet cluster status", "vx-span", "allocnet cluster ping", "Each allocation has the address that it had"} {
		if err != nil || !strings.Contains(string(out), want) {
			t.Fatalf("%v, want %q\n%s", err, want, out)
		}
	}
	t.Logf("%s", out)
}
