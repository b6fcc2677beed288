// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package nomadagent

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
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

// Run runs tests, and ends what their agents leave behind: processes, and
// control groups, which are in no namespace.
func Run(run func() int) int {
	before := controlGroups()
	code := run()
	KillTasks()
	for group := range controlGroups() {
		if before[group] {
			continue
		}
		if out, err := exec.Command("find", group, "-depth", "-type", "d", "-delete").CombinedOutput(); err != nil {
			_, _ = fmt.Fprintf(os.Stderr, "control group %s is left: %s\n", group, out) // stderr is the only log
		}
	}
	return code
}

// controlGroups returns the machine's groups of Nomad.
func controlGroups() map[string]bool {
	present := map[string]bool{}
	for _, pattern := range []string{"/sys/fs/cgroup/nomad*", "/sys/fs/cgroup/*/nomad*"} {
		found, _ := filepath.Glob(pattern)
		for _, group := range found {
			present[group] = true
		}
	}
	return present
}
