// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package roottest marks the tests outside of e2e that need root: those named TestRoot….
package roottest

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// IsRoot returns whether this process is root, and has the capabilities that make namespaces and networks: make
// check takes them from root, and containers do.
func IsRoot() bool {
	const needed = 1<<unix.CAP_NET_ADMIN | 1<<unix.CAP_SYS_ADMIN
	var held [2]unix.CapUserData
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	err := unix.Capget(&header, &held[0])
	return os.Geteuid() == 0 && err == nil && held[0].Effective&needed == needed
}

// Sandbox is the environment variable of a process that is in a sandbox, or on its way into it. It is Prepared
// once there is nothing of the machine that the process could change.
const (
	Sandbox  = "ALLOCNET_SANDBOX"
	Prepared = "prepared"
)

// Require fails a test that has no root, or would have it on the machine itself: with the packets that
// its owner drops, and the networks of others. It is the first statement of each TestRoot….
func Require(t *testing.T) {
	t.Helper()
	if lack := lack(IsRoot(), os.Getenv(Sandbox)); lack != "" {
		t.Fatal(t.Name(), lack)
	}
}

func lack(root bool, stage string) string {
	switch {
	case !root:
		return "needs root: run: sudo make test, or make check for the tests that need none"
	case stage != Prepared:
		return "would change this machine: let TestMain of its package call sandbox.MainIfRoot"
	}
	return ""
}
