// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package detached starts processes that outlive the calling process, and for which
// none of its callers waits.
package detached

import (
	"os"
	"os/exec"
	"syscall"
)

// Start executes this program again with arguments and standard input; nil for none. The
// process has a session of its own and no output: a caller that waits for the
// end of a pipe does not wait for it.
func Start(stdin *os.File, args ...string) error {
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Args[0] = os.Args[0]
	if stdin != nil {
		cmd.Stdin = stdin
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	return cmd.Process.Release()
}
