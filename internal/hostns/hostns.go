// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package hostns tells whether this process sees the host. In a container the
// paths of living network namespaces lead nowhere and the rules of the host do
// not show, so that everything looks dead.
package hostns

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/allocnet/allocnet/internal/errdefs"
)

// OutsideError is a process that does not see the host, or of which that cannot
// be told.
type OutsideError struct{ Reason string }

func (e *OutsideError) Error() string {
	return "this process may not see what lives on the host: " + e.Reason + ": nothing is removed from here"
}

// Kind is that nothing was done.
func (e *OutsideError) Kind() errdefs.Kind { return errdefs.Refused }

// firstPID is the machine's first PID namespace, whose number the kernel fixes
// (PROC_PID_INIT_INO, include/linux/proc_ns.h).
const firstPID = "pid:[4026531836]"

// inits are what process 1 of a machine or of a system container is called. In
// an application's container it is the application, or a helper that reaps.
var inits = []string{"init", "systemd"}

// Check is nil when this process has the mount and network namespaces and the
// root directory of process 1, and process 1 is a host's: of the machine's first
// PID namespace, or an init system.
func Check() error { return check("/proc") }

func check(proc string) error {
	for _, kind := range []string{"mnt", "net"} {
		own, err := os.Readlink(filepath.Join(proc, "self/ns", kind))
		if err != nil {
			return &OutsideError{err.Error()}
		}
		first, err := os.Readlink(filepath.Join(proc, "1/ns", kind))
		if err != nil {
			return &OutsideError{err.Error()}
		}
		if own != first {
			return &OutsideError{fmt.Sprintf("it is in namespace %s, process 1 in %s (nsenter --target 1 --mount --net enters those)", own, first)}
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
		return &OutsideError{err.Error()}
	}
	first, err := os.Stat(filepath.Join(proc, "1/root"))
	if err != nil {
		return &OutsideError{err.Error()}
	}
	if !os.SameFile(own, first) {
		return &OutsideError{"its root directory is not that of process 1"}
	}
	return nil
}

// checkFirst tells whether process 1 is a host's.
func checkFirst(proc string) error {
	pid, err := os.Readlink(filepath.Join(proc, "self/ns/pid"))
	if err != nil {
		return &OutsideError{err.Error()}
	}
	name, err := os.ReadFile(filepath.Join(proc, "1/comm"))
	if err != nil {
		return &OutsideError{err.Error()}
	}
	comm := strings.TrimSpace(string(name))
	if pid != firstPID && !slices.Contains(inits, comm) {
		return &OutsideError{fmt.Sprintf("it is in a container, where process 1 is %q and no init system", comm)}
	}
	return nil
}
