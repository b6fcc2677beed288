// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package unit

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// answer puts a systemctl first in the path.
func answer(t *testing.T, script string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "systemctl"), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

// ended returns a process that has been, and one that waits for its parent.
func ended(t *testing.T) (owner, zombie string) {
	t.Helper()
	run := func() (*exec.Cmd, string) {
		cmd := exec.Command("cat")
		stdin, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		started, err := startOf(cmd.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		_ = stdin.Close()
		return cmd, fmt.Sprintf("systemd:web-1:%d:%s", cmd.Process.Pid, started)
	}
	cmd, owner := run()
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	cmd, zombie = run()
	for _, err := startOf(cmd.Process.Pid); err == nil; _, err = startOf(cmd.Process.Pid) {
	}
	t.Cleanup(func() { _ = cmd.Wait() })
	return owner, zombie
}

func TestGone(t *testing.T) {
	dead, zombie := ended(t)
	alive, err := Owner("web-1")
	if err != nil {
		t.Fatal(err)
	}
	const notFound, loaded = `[ "$*" = "show --property=LoadState -- web-1.service" ] && echo LoadState=not-found`, "echo LoadState=loaded"
	for name, test := range map[string]struct {
		owner, script string
		gone, unknown bool
	}{
		"killed before the unit started":  {dead, notFound, true, false},
		"killed, and waits for a parent":  {zombie, notFound, true, false},
		"the PID is another's now":        {fmt.Sprintf("systemd:web-1:%d:1", os.Getpid()), notFound, true, false},
		"the unit exists":                 {dead, loaded, false, false},
		"about to start the unit":         {alive, notFound, false, false},
		"systemd does not answer":         {dead, "echo 'Failed to connect to bus' >&2; exit 1", false, true},
		"an answer that says nothing":     {dead, "true", false, true},
		"an allocation of a CNI runtime":  {"multi eth0", notFound, false, false},
		"an allocation without an owner":  {"", notFound, false, false},
		"an owner that cannot be read":    {"systemd:web-1", notFound, false, false},
		"an owner with a PID that is not": {"systemd:web-1:x:1", notFound, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			answer(t, test.script)
			if gone, err := Gone(t.Context(), test.owner); gone != test.gone || (err != nil) != test.unknown {
				t.Errorf("gone %t, %v", gone, err)
			}
		})
	}
}
