// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package sandbox

import (
	"errors"
	"os"
	"os/exec"
	"testing"
)

// TestStop: a process is stopped when Stop returns, and one that has ended is an error.
func TestStop(t *testing.T) {
	cmd := exec.Command("sh", "-c", "while :; do :; done")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if running, err := runningThread(cmd.Process.Pid); running == "" || err != nil {
		t.Errorf("before: %q, %v", running, err)
	}
	if err := Stop(cmd.Process.Pid); err != nil {
		t.Error(err)
	}
	if running, err := runningThread(cmd.Process.Pid); running != "" || err != nil {
		t.Errorf("after: %q, %v", running, err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // killed
	if _, err := runningThread(cmd.Process.Pid); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("ended: %v", err)
	}
	if Stop(cmd.Process.Pid) == nil {
		t.Error("ended: no error")
	}
}
