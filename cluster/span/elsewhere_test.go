// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package span

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestRequireNoOther: an agent with another state directory is found by its lock, unless it is in another network
// namespace. One's own lock is none of another.
func TestRequireNoOther(t *testing.T) {
	dir := Dir(t.TempDir())
	unlock, err := Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	without := func(what string) {
		t.Helper()
		if err := RequireNoOther(); err != nil && strings.Contains(err.Error(), dir) {
			t.Errorf("%s: %v", what, err)
		}
	}
	without("only this process")
	process := hold(t, filepath.Join(dir, lockName), 0)
	want := fmt.Sprintf("process %d, whose records are in %s", process, dir)
	if err := RequireNoOther(); !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
	stop(t, process)
	without("the other one has ended")
	hold(t, filepath.Join(dir, lockName), syscall.CLONE_NEWUSER|syscall.CLONE_NEWNET)
	without("another network namespace")
	if err := os.WriteFile(filepath.Join(dir, "unlock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	hold(t, filepath.Join(dir, "unlock"), 0)
	without("another file")
}

// hold starts a process that has a file open.
func hold(t *testing.T, path string, namespaces uintptr) (process int) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	cmd := exec.Command("sleep", "1000")
	cmd.Stdin, cmd.SysProcAttr = file, &syscall.SysProcAttr{Cloneflags: namespaces, Pdeathsig: syscall.SIGKILL}
	if namespaces != 0 {
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() }) // killed
	return cmd.Process.Pid
}

// stop ends a process.
func stop(t *testing.T, process int) {
	t.Helper()
	if err := syscall.Kill(process, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(process, &status, 0, nil); err != nil {
		t.Fatal(err)
	}
}
