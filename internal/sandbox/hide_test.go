// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package sandbox

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// TestClearEnvironment: what make sets for tests is kept, and what configures programs is not.
func TestClearEnvironment(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(Root(), "GNUmakefile"))
	if err != nil {
		t.Fatal(err)
	}
	keeps := map[string]bool{"ALLOCNET_CONF_DIR": false, "ALLOCNET_STATE_DIR": false, "ALLOCNET_REPAIR": false, "ALLOCNET_SEED_DIR": false, "CNI_PATH": false, "NOMAD_TOKEN": false, "NOTIFY_SOCKET": false, "PATH": true}
	for _, m := range regexp.MustCompile(`\b(ALLOCNET_\w+)=`).FindAllSubmatch(makefile, -1) {
		keeps[string(m[1])] = true
	}
	if len(keeps) < 12 {
		t.Errorf("only %d variables", len(keeps))
	}
	for name := range keeps {
		t.Setenv(name, os.Getenv(name)+"x")
	}
	if err := ClearEnvironment(); err != nil {
		t.Fatal(err)
	}
	for name, want := range keeps {
		if _, got := os.LookupEnv(name); got != want {
			t.Errorf("%s is kept: %t, want %t", name, got, want)
		}
	}
}
