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
	if err := os.WriteFile(filepath.Join(dir, "systemctl"), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
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
	const (
		notFound = `[ "$*" = "show --property=LoadState,ActiveState,Job,NetworkNamespacePath -- web-1.service" ] && printf 'LoadState=not-found\nActiveState=inactive\n'`
		loaded   = `printf 'LoadState=loaded\nActiveState=inactive\n'`
	)
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

func TestRunsIn(t *testing.T) {
	const netns = "/run/netns/web-1"
	for name, test := range map[string]struct {
		answer        string
		runs, unknown bool
	}{
		"runs":                            {"LoadState=loaded\nActiveState=active\nNetworkNamespacePath=" + netns, true, false},
		"is starting":                     {"NetworkNamespacePath=" + netns + "\nJob=7\nLoadState=loaded\nActiveState=activating", true, false},
		"its start waits for other units": {"LoadState=loaded\nActiveState=inactive\nJob=7\nNetworkNamespacePath=" + netns, true, false},
		"is being taken down":             {"LoadState=loaded\nActiveState=deactivating\nNetworkNamespacePath=" + netns, true, false},
		"has ended, and is still loaded":  {"LoadState=loaded\nActiveState=inactive\nNetworkNamespacePath=" + netns, false, false},
		"has failed, and is still loaded": {"LoadState=loaded\nActiveState=failed\nNetworkNamespacePath=" + netns, false, false},
		"does not exist":                  {"LoadState=not-found\nActiveState=inactive", false, false},
		"is another's":                    {"LoadState=loaded\nActiveState=active\nNetworkNamespacePath=", false, false},
		"is in another namespace":         {"LoadState=loaded\nActiveState=active\nNetworkNamespacePath=/run/netns/web", false, false},
		"an answer without a state":       {"LoadState=loaded\nNetworkNamespacePath=" + netns, false, true},
		"no answer":                       {"", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			answer(t, fmt.Sprintf("echo '%s'", test.answer))
			if runs, err := RunsIn(t.Context(), "web-1", netns); runs != test.runs || (err != nil) != test.unknown {
				t.Errorf("runs %t, %v", runs, err)
			}
		})
	}
	answer(t, "exit 1")
	if _, err := RunsIn(t.Context(), "web-1", netns); err == nil {
		t.Error("systemd does not answer, and it is known")
	}
}
