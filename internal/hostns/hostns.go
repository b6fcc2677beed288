// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package hostns tells whether this process is in the namespaces of the host. In a
// container the paths of existing network namespaces cannot be resolved and the host's
// rules are not visible, so that every allocation seems dead.
package hostns

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/allocnet/allocnet/internal/errdefs"
)

// Outside is the error of a process that is not in the namespaces of the host, or may not be.
func Outside(reason error) error {
	return errdefs.As(errdefs.Refused, fmt.Errorf("this process may be outside of the host's namespaces: %w: nothing is removed from here", reason))
}

// firstPID is the machine's first PID namespace, whose number the kernel fixes
// (PROC_PID_INIT_INO, include/linux/proc_ns.h).
const firstPID = "pid:[4026531836]"

// inits are the names of process 1 on a host and in a system container. In an
// application's container it is the application, or a helper that reaps processes.
var inits = []string{"init", "systemd"}

// Check is nil when this process has the mount and network namespaces and the
// root directory of process 1, and process 1 is a host's: of the machine's first
// PID namespace, or an init system.
func Check() error {
	if err := check("/proc"); err != nil {
		return Outside(err)
	}
	return nil
}

// check reads the namespaces of the calling thread: while other threads, the first one among
// them, attach allocations, they are in the namespaces of these.
func check(proc string) error {
	for _, kind := range []string{"mnt", "net"} {
		own, err := os.Readlink(filepath.Join(proc, "thread-self/ns", kind))
		if err != nil {
			return err
		}
		first, err := os.Readlink(filepath.Join(proc, "1/ns", kind))
		if err != nil {
			return err
		}
		if own != first {
			return fmt.Errorf("it is in namespace %s, process 1 in %s (nsenter --target 1 --mount --net enters those)", own, first)
		}
	}
	if err := sameRoot(proc); err != nil {
		return err
	}
	return checkFirst(proc)
}

func sameRoot(proc string) error {
	own, err := os.Stat(filepath.Join(proc, "self/root"))
	if err != nil {
		return err
	}
	first, err := os.Stat(filepath.Join(proc, "1/root"))
	if err != nil {
		return err
	}
	if !os.SameFile(own, first) {
		return errors.New("its root directory is not that of process 1")
	}
	return nil
}

// checkFirst tells whether process 1 is a host's.
func checkFirst(proc string) error {
	pid, err := os.Readlink(filepath.Join(proc, "thread-self/ns/pid"))
	if err != nil {
		return err
	}
	name, err := os.ReadFile(filepath.Join(proc, "1/comm"))
	if err != nil {
		return err
	}
	comm := strings.TrimSpace(string(name))
	if pid != firstPID && !slices.Contains(inits, comm) {
		return fmt.Errorf("it is in a container, where process 1 is %q and no init system", comm)
	}
	return nil
}
