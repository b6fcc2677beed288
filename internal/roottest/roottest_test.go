// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package roottest_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/roottest"
	"github.com/allocnet/allocnet/internal/sandbox"
)

func TestMain(m *testing.M) {
	os.Exit(sandbox.MainIfRoot(m.Run))
}

// TestRootWithoutCapabilities: root from which make check has taken them does not count as root.
func TestRootWithoutCapabilities(t *testing.T) {
	roottest.Require(t)
	out, err := exec.Command("setpriv", "--bounding-set=-all", "--inh-caps=-all", os.Args[0], "-test.run=^TestRootWithoutCapabilities$").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "needs root") {
		t.Errorf("%v: %s", err, out)
	}
}
