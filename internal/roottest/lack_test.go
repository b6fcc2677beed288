// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package roottest

import (
	"strings"
	"testing"
)

// TestLack: a test that needs root runs with root and in a sandbox alone.
func TestLack(t *testing.T) {
	for _, test := range []struct {
		root         bool
		stage, words string
	}{
		{false, "", "needs root"}, {false, Prepared, "needs root"}, {true, "", "this machine"}, {true, "entering mnt:[1]", "this machine"}, {true, Prepared, ""},
	} {
		if got := lack(test.root, test.stage); !strings.Contains(got, test.words) || test.words == "" && got != "" {
			t.Errorf("%+v: %q", test, got)
		}
	}
}
