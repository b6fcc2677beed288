// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import "testing"

// TestFailureBeforeTheCommand: the exit code distinguishes a failure of allocnet from a
// command that exits with 1.
func TestFailureBeforeTheCommand(t *testing.T) {
	h := newHost(t)
	for _, command := range []string{"run", "systemd-run"} {
		h.refuse(125, []string{"state directory"}, command, "--state-dir", "/proc/none", "--networks", "storage", "--", "true")
	}
}
