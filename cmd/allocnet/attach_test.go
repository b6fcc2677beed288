// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"strings"
	"testing"
)

// TestAttachNothingSetUp: further networks of an ID that is not set up make no namespace by surprise.
func TestAttachNothingSetUp(t *testing.T) {
	for _, test := range []struct {
		args    []string
		refused bool
	}{
		{nil, true},
		{[]string{"--primary="}, false},
		{[]string{"--primary", "web"}, false},
		{[]string{"--netns", "/run/netns/none"}, false},
	} {
		var out strings.Builder
		args := append([]string{"attach", "x9", "--networks", "web@if1", "--state-dir", t.TempDir(), "--conf-dir", t.TempDir()}, test.args...)
		if execute(t.Context(), args, &out, &out) == exitDone {
			t.Fatalf("%q succeeds: %s", test.args, &out)
		}
		if got := strings.Contains(out.String(), "allocation x9 is not set up") && strings.Contains(out.String(), "--primary NETWORK"); got != test.refused {
			t.Errorf("%q: refused: %t, want %t: %s", test.args, got, test.refused, &out)
		}
	}
}
