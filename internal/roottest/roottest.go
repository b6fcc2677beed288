// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package roottest marks the tests outside of e2e that need root: those named TestRoot….
package roottest

import (
	"os"
	"testing"
)

// Require fails a test that has no root. It is the first statement of each TestRoot….
func Require(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatalf("%s needs root: run: sudo make test, or make check for the tests that need none", t.Name())
	}
}
