// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package sandbox

import (
	"errors"
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// StartDaemon starts a program, waits until it is ready, and has it end with the test, by SIGTERM and without an error. What it writes is
// in the test's output.
func StartDaemon(t testing.TB, cmd *exec.Cmd, ready func() error) {
	t.Helper()
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		kill := time.AfterFunc(never, func() { _ = cmd.Process.Kill() }) // which Wait tells
		defer kill.Stop()
		if err := errors.Join(cmd.Process.Signal(unix.SIGTERM), cmd.Wait()); err != nil {
			t.Errorf("%s: %v", cmd, err)
		}
	})
	var err error
	Eventually(t, "the program is ready", func() bool {
		err = ready()
		return err == nil
	}, func() string { return err.Error() })
}
