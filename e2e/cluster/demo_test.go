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

// TestDemo runs what `make demo-cluster` runs, in a sandbox of its own.
func TestDemo(t *testing.T) {
	t.Parallel() // with TestLeaderStopped: both wait most of the time
	binary := filepath.Join(t.TempDir(), "demo")
	must(t, sandbox.Build(binary, "e2e/cluster/demo"))
	cmd := exec.Command(binary)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "ALLOCNET_SANDBOX=") })
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "Each allocation has the address that it had") {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}
