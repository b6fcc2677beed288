// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// TestJSONOnTerminal: JSON has no character that a terminal executes, and the same values.
func TestJSONOnTerminal(t *testing.T) {
	want := "a\u009b31m \u202e\x7f \u00e9 \U000e0001\n\x1b"
	var out bytes.Buffer
	if err := PrintJSON(&out, []string{want}); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsFunc(out.String(), hidden) || !strings.Contains(out.String(), "\u00e9") {
		t.Errorf("printed %q", out.String())
	}
	var got []string
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || len(got) != 1 || got[0] != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}
