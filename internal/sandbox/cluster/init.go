// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/sandbox"
)

// machineDir marks the first process of a machine. It has the machine's directory.
const machineDir = "ALLOCNET_CLUSTER_MACHINE"

// Main does not return in a process that is the first one of a machine. A program that
// makes a cluster calls it before all else.
func Main() {
	dir := os.Getenv(machineDir)
	if dir == "" {
		return
	}
	children := make(chan os.Signal, 1)
	signal.Notify(children, unix.SIGCHLD)
	if err := boot(dir); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(booted)
	for range children {
		for pid := 1; pid > 0; {
			pid, _ = unix.Wait4(-1, nil, unix.WNOHANG, nil) // orphans, until there are none
		}
	}
}

// boot makes the namespaces of this process those of a machine: directories of its own
// in the places of the system's.
func boot(dir string) error {
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	// A host is known by the name of its first process.
	if err := os.WriteFile("/proc/self/comm", []byte("init"), 0); err != nil {
		return err
	}
	for _, path := range own {
		if err := sandbox.Bind(filepath.Join(dir, path), path); err != nil {
			return err
		}
	}
	if err := newBoot(); err != nil {
		return err
	}
	return sandbox.MountSys()
}

// newBoot gives the machine a boot ID of its own: the kernel's is that of all machines.
func newBoot() error {
	id := randomHex()
	text := fmt.Sprintf("%s-%s-4%s-8%s-%s\n", id[:8], id[8:12], id[13:16], id[17:20], id[20:])
	if err := os.WriteFile("/run/boot_id", []byte(text), 0o444); err != nil {
		return err
	}
	return unix.Mount("/run/boot_id", "/proc/sys/kernel/random/boot_id", "", unix.MS_BIND, "")
}
