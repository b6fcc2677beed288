// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"testing"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/state"
)

// TestPhaseCell: an attachment that was detached to be attached again is not shown as attached.
func TestPhaseCell(t *testing.T) {
	for want, n := range map[string]hook.Attachment{
		"attached":     {Phase: state.Attached},
		"not attached": {Phase: state.Attached, Error: "interface eth0 is gone"},
		"pending":      {Phase: state.Pending, Error: "device busy"},
	} {
		if got := phaseCell(n).lines[0]; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
