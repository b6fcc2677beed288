// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package nomadagent

import (
	"strings"
	"testing"
)

// TestMissing: a missing program is said at once, with what makes it.
func TestMissing(t *testing.T) {
	t.Setenv("ALLOCNET_TEST_NOMAD", t.TempDir()+"/nomad")
	if _, err := Begin(); err == nil || !strings.Contains(err.Error(), "run: make nomad") {
		t.Errorf("got %v", err)
	}
}
