// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package nomadagent

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// groupsDir has the control groups of the machine, which are in no namespace: the agents of packages
// that are tested at the same time share those of Nomad.
const groupsDir = "/sys/fs/cgroup"

// ofTests is the attribute of a group that was made by a test.
const ofTests = "trusted.allocnet-tests"

// groups are the control groups of Nomad while agents run.
type groups struct {
	// lock is shared by all whose agents run.
	lock *os.File
	// before are those that were there.
	before []string
}

func useGroups() (*groups, error) {
	lock, err := os.Open(groupsDir)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_SH); err != nil {
		return nil, fmt.Errorf("lock %s: %w", groupsDir, err)
	}
	return &groups{lock, list(false)}, nil
}

// list returns the groups of Nomad, either those that tests are known to have made or the others.
func list(tests bool) (found []string) {
	for _, pattern := range []string{groupsDir + "/nomad*", groupsDir + "/*/nomad*"} {
		paths, _ := filepath.Glob(pattern) // the pattern is right
		for _, path := range paths {
			if _, err := unix.Getxattr(path, ofTests, nil); (err == nil) == tests {
				found = append(found, path)
			}
		}
	}
	return found
}

// end marks the groups that were made. The last whose agents end removes them: one that looks unused
// may be about to be used by the agent of another one.
func (g *groups) end() error {
	defer g.lock.Close() //nolint:errcheck // nothing was written
	var errs []error
	for _, path := range list(false) {
		if !slices.Contains(g.before, path) {
			errs = append(errs, unix.Setxattr(path, ofTests, nil, 0))
		}
	}
	if err := unix.Flock(int(g.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return errors.Join(errs...) // others run
	}
	for _, path := range list(true) {
		if out, err := exec.Command("find", path, "-depth", "-type", "d", "-delete").CombinedOutput(); err != nil {
			errs = append(errs, fmt.Errorf("control group %s is left: %w: %s", path, err, out))
		}
	}
	return errors.Join(errs...)
}
