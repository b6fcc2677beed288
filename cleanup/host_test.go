// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"strings"
	"testing"
)

// TestRun returns what a program prints; an error has its name and what it says.
func TestRun(t *testing.T) {
	if out, err := (system{}).run(t.Context(), []byte("*nat\n"), "cat"); err != nil || out != "*nat\n" {
		t.Errorf("cat: %q, %v, want its input", out, err)
	}
	_, err := (system{}).run(t.Context(), nil, "sh", "-c", "echo line 3 failed >&2; exit 2")
	if err == nil || !strings.Contains(err.Error(), "sh: exit status 2: line 3 failed") {
		t.Errorf("%v, want program, status and message", err)
	}
	if !(system{}).installed("sh") || (system{}).installed("no-such-program") {
		t.Error("want sh installed, and no-such-program not")
	}
}
