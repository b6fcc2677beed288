// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package kernel

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/go-hclog"
)

// TestFilterBridges: the sysctls are on afterwards.
func TestFilterBridges(t *testing.T) {
	dir := t.TempDir()
	for _, name := range bridgeSysctls {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("0"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	filterBridges(hclog.NewNullLogger(), dir)
	for _, name := range bridgeSysctls {
		if data, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(data) != "1" {
			t.Errorf("%s is %q, %v", name, data, err)
		}
	}
}
