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

// Require fails a test that has no root. It is the first statement of each TestRoot….
func Require(t *testing.T) {
	t.Helper()
	if !IsRoot() {
		t.Fatalf("%s needs root: run: sudo make test, or make check for the tests that need none", t.Name())
	}
}
