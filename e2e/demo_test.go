// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/sandbox"
)

// TestDemo runs what `make demo` runs, by a link to a checkout below a directory that the demo hides.
func TestDemo(t *testing.T) {
	const checkout = "/run/user/checkout"
	t.Cleanup(func() { _ = os.RemoveAll("/run/user") })
	for dir, program := range map[string]string{"bin": "allocnet", "demo": "web"} {
		if err := sandbox.Install(filepath.Join(checkout, "build", dir), program); err != nil {
			t.Fatal(err)
		}
	}
	for from, to := range map[string]string{"dist/conf": "dist", "e2e/demo.sh": "e2e"} {
		sandbox.Run(t, "install", "-d", filepath.Join(checkout, to))
		sandbox.Run(t, "cp", "-r", filepath.Join(sandbox.Root(), from), filepath.Join(checkout, to))
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(checkout, link); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(filepath.Join(link, "e2e/demo.sh")).CombinedOutput()
	if err != nil || !strings.HasSuffix(string(out), "records are as before.\n") {
		t.Errorf("%v\n%s", err, out)
	}
}
