// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"strings"
	"testing"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/state"
)

// TestVerifyPhase: a task with an attachment that is being made or removed is not recovered as one that runs.
func TestVerifyPhase(t *testing.T) {
	for _, phase := range []state.Phase{state.Adding, state.Deleting, state.Pending} {
		half := &task{saved: driverState{Interfaces: []string{"net1"}}, attached: []hook.Attachment{{Interface: "net1", Phase: phase}}}
		if err := half.verify(); err == nil || !strings.Contains(err.Error(), "in phase") {
			t.Errorf("%s: %v", phase, err)
		}
	}
}
