// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"strings"
	"testing"

	"github.com/allocnet/allocnet/cmd/allocnet/cli"
)

// TestUIPort: a number that no port has is refused before the agent is asked.
func TestUIPort(t *testing.T) {
	for _, port := range []string{"-1", "65536", "99999"} {
		if code, _, errs := runs(t, "ui", "--socket", "/none", "--port", port); code != cli.ExitRefused || !strings.Contains(errs, "--port "+port+": want 1 to 65535") {
			t.Errorf("exit code %d: %s", code, errs)
		}
	}
	if code, _, errs := runs(t, "ui", "--socket", "/none", "--port", "65535"); code != cli.ExitFailed || !strings.Contains(errs, "/none") {
		t.Errorf("exit code %d: %s", code, errs)
	}
}
