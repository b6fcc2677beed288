// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Stop stops a process where it is, as a machine that hangs does, until it gets SIGCONT. A thread goes on after the signal until
// it is scheduled, so all of them are waited for.
func Stop(pid int) error {
	if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
		return err
	}
	for until := time.Now().Add(never); ; time.Sleep(time.Millisecond) {
		running, err := runningThread(pid)
		if running == "" {
			return err
		}
		if time.Now().After(until) {
			return fmt.Errorf("process %d goes on after SIGSTOP: %s", pid, running)
		}
	}
}

// runningThread returns the status of a thread that is not stopped; empty if there is none.
func runningThread(pid int) (string, error) {
	paths, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil || len(paths) == 0 {
		return "", errors.Join(err, os.ErrProcessDone)
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		if state := data[bytes.LastIndexByte(data, ')')+1:]; !bytes.HasPrefix(state, []byte(" T")) {
			return string(data), nil
		}
	}
	return "", nil
}
