// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"errors"
	"os/exec"
	"testing"

	"github.com/allocnet/allocnet/cmd/allocnet/cli"
)

// TestCommandOutcome: a command that a signal ended has the exit code that shells give it.
func TestCommandOutcome(t *testing.T) {
	for script, want := range map[string]int{"exit 7": 7, "kill -TERM $$": 143, "kill -KILL $$": 137} {
		exit, ok := errors.AsType[*cli.ExitError](commandOutcome(exec.Command("/bin/sh", "-c", script).Run()))
		if !ok || exit.Code != want {
			t.Errorf("%s: %+v, want exit code %d", script, exit, want)
		}
	}
}
