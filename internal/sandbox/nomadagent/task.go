// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package nomadagent

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// mark is in the environment of the agent and of all that it starts, and of
// nothing else on the machine.
func mark() string { return fmt.Sprintf("ALLOCNET_TEST_AGENT=%d.", os.Getpid()) }

// Tasks returns the processes that the agent has started, and their children.
func Tasks() []int {
	var found []int
	environs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range environs {
		environ, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(environ, []byte(mark())) {
			continue
		}
		var pid int
		if _, err := fmt.Sscanf(path, "/proc/%d/environ", &pid); err == nil && pid != os.Getpid() {
			found = append(found, pid)
		}
	}
	return found
}

// KillTasks ends Tasks.
func KillTasks() {
	for _, pid := range Tasks() {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
}

// Run runs tests, and ends what their agents leave behind.
func Run(run func() int) int {
	end, err := Begin()
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err) // stderr is the only log
		return 1
	}
	defer end()
	return run()
}

// Begin is called before agents are started. With end, what they leave behind ends: processes, and
// control groups. Without the program, agents would be waited for in vain.
func Begin() (end func(), err error) {
	if _, err := os.Stat(Binary()); err != nil {
		return nil, fmt.Errorf("the Nomad agent is missing: %w: run: make nomad", err)
	}
	groups, err := useGroups()
	return func() {
		KillTasks()
		if err := groups.end(); err != nil {
			_, _ = fmt.Fprintln(os.Stderr, err) // stderr is the only log
		}
	}, err
}
