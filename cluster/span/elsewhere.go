// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package span

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/prometheus/procfs"
)

// RequireNoOther returns ErrLocked if another process of this user has a lock of routes, in whatever
// directory, and shares the network namespace: an agent with another state directory. Locks of other users
// are none. An agent whose processes are not seen from here, as from within a container, is not found.
func RequireNoOther() error {
	own, err := procfs.Self()
	if err != nil {
		return err
	}
	network, err := networkOf(own)
	if err != nil {
		return err
	}
	all, err := procfs.AllProcs()
	if err != nil {
		return err
	}
	var others []string
	for _, p := range all {
		if p.PID == own.PID || !isOwnUsers(p) {
			continue
		}
		if dir := lockedBy(p); dir != "" {
			if theirs, err := networkOf(p); err == nil && theirs == network {
				others = append(others, fmt.Sprintf("process %d, whose records are in %s", p.PID, dir))
			}
		}
	}
	if len(others) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrLocked, strings.Join(others, "; "))
}

// isOwnUsers is false for a process that has ended, too.
func isOwnUsers(p procfs.Proc) bool {
	status, err := p.NewStatus()
	return err == nil && !slices.ContainsFunc(status.UIDs[:], func(id uint64) bool { return id != uint64(os.Geteuid()) })
}

// lockedBy returns the directory of routes whose lock a process has open. Empty: it has none.
func lockedBy(p procfs.Proc) string {
	open, err := p.FileDescriptorTargets()
	if err != nil {
		return ""
	}
	for _, path := range open {
		if strings.HasSuffix(path, filepath.Join("/", Dir(""), lockName)) {
			return filepath.Dir(path)
		}
	}
	return ""
}

func networkOf(p procfs.Proc) (uint32, error) {
	all, err := p.Namespaces()
	return all["net"].Inode, err
}
