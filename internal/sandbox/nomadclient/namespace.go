// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package nomadclient

import (
	"fmt"
	"os"
	"os/exec"

	"github.com/allocnet/allocnet/internal/netns"
)

// namespaceDir is the directory as it is in CNI_NETNS (v2.0.5 network_manager_linux.go:119-152).
const namespaceDir = "/var/run/netns/"

// createNamespace makes the namespace, with its loopback interface down. It reports false for one that
// exists.
func (a *Allocation) createNamespace() (created bool, err error) {
	a.path = namespaceDir + a.ID
	if _, err := os.Stat(a.path); err == nil {
		return false, nil
	}
	if out, err := exec.Command("ip", "netns", "add", a.ID).CombinedOutput(); err != nil {
		return false, fmt.Errorf("failed to create network for alloc: %w: %s", err, out)
	}
	return true, nil
}

func (a *Allocation) destroyNamespace() error { return netns.Remove(a.path) }
