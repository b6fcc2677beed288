// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package detached starts processes that outlive the calling process, and for which
// none of its callers waits.
package detached

import (
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// Start executes this program again with arguments and standard input. The
// process has a session of its own and no output: a caller that waits for the
// end of a pipe does not wait for it.
func Start(input []byte, args ...string) error {
	stdin, err := memory(input)
	if err != nil {
		return err
	}
	defer stdin.Close() //nolint:errcheck // the process has its own
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Args[0] = os.Args[0]
	cmd.Stdin = stdin
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	return cmd.Process.Release()
}

// memory returns a file in memory with the content.
func memory(content []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("stdin", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	file := os.NewFile(uintptr(fd), "stdin")
	_, err = file.Write(content)
	if err == nil {
		_, err = file.Seek(0, 0)
	}
	if err != nil {
		_ = file.Close() // nothing reads it
		return nil, err
	}
	return file, nil
}
