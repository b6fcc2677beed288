// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/allocnet/allocnet/internal/sandbox"
)

func TestMain(m *testing.M) {
	if err := sandbox.ClearEnvironment(); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// TestOwnEnvironment: the tests of the command line do not depend on how the machine has configured it.
func TestOwnEnvironment(t *testing.T) {
	again := exec.Command(os.Args[0], "-test.run=^TestVersion$", "-test.v")
	again.Env = append(os.Environ(), "ALLOCNET_JSON=1", "ALLOCNET_CALL_TIMEOUT=x")
	if out, err := again.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
