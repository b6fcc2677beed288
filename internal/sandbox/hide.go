// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// hidden returns the directories of the machine that allocnet, CNI plugins, runtimes and Nomad read or
// write. In a sandbox they are empty, where the machine has them, but for what tests need (Cover). Changes of the rest
// of /etc are the sandbox's own.
func hidden() []string {
	return append(inHome(".docker", ".config/cni", ".config/containers", ".local/share/containers"),
		"/dev/shm", "/etc/netns", "/etc/allocnet", "/etc/cni", "/etc/nomad.d", "/opt/cni", "/usr/lib/cni", "/usr/libexec/cni")
}

// inHome returns directories below that of the user; none if the user has none.
func inHome(names ...string) (dirs []string) {
	home, err := os.UserHomeDir()
	if err != nil {
		return nil
	}
	for _, name := range names {
		dirs = append(dirs, filepath.Join(home, name))
	}
	return dirs
}

// configuration matches the environment variables that configure these programs, and forTests those of
// allocnet's that configure tests.
var (
	configuration = regexp.MustCompile(`^(ALLOCNET|CNI|CONSUL|CONTAINERS?|DBUS|DOCKER|NETCONFPATH|NOMAD|NOTIFY_SOCKET|VAULT)(_|=)`)
	forTests      = regexp.MustCompile(`^ALLOCNET_(CHAOS_(KILLS|ROUNDS|SEED)|CLUSTER_MACHINE|DIFFERENTIAL_(SEED|TIME|WORKER)|EXECUTOR|IPAM|IPAM_SEED|MODEL_(SCHEDULES|SEED)|PLOT|POOL_SEED|` +
		`PROGRAMS|REPAIR_(ALLOCATIONS|ROUTES)|ROUTE_CHILD|SANDBOX|SCREENSHOTS|SEED|STATE_TEST|TEST_[A-Z_]+|WRITE_GOLDEN)=`)
)

// hide makes the sandbox independent of what the machine has installed and configured.
func hide() error {
	if err := ClearEnvironment(); err != nil {
		return err
	}
	for _, step := range []func() error{moveTemporary, func() error { return Cover("/run") }, func() error { return Cover("/var/lib") }, overlayEtc} {
		if err := step(); err != nil {
			return err
		}
	}
	for _, dir := range hidden() {
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := Cover(dir); err != nil {
			return err
		}
	}
	return nil
}

// overlayEtc makes changes of /etc the sandbox's own. It has /etc/netns, which stays once it
// is made.
func overlayEtc() error {
	const dir = "/run/etc"
	if err := errors.Join(os.MkdirAll(dir+"/changes/netns", 0o755), os.MkdirAll(dir+"/work", 0o755)); err != nil {
		return err
	}
	if err := unix.Mount("overlay", "/etc", "overlay", 0, "lowerdir=/etc,upperdir="+dir+"/changes,workdir="+dir+"/work"); err != nil {
		return fmt.Errorf("cover /etc: %w", err)
	}
	return nil
}

// moveTemporary gives the directory for temporary files a path that is short enough for sockets. It comes first: the
// directory may be below a hidden one, as may that in which the go command works.
func moveTemporary() error {
	paths, err := needed()
	if err != nil {
		return err
	}
	dir := "/srv"
	if slices.Contains(paths, dir) { // as the checkout of a container
		dir = "/media"
	}
	if err := Bind(os.TempDir(), dir); err != nil {
		return err
	}
	return errors.Join(os.Setenv("TMPDIR", dir), os.Setenv("GOTMPDIR", dir))
}

// ClearEnvironment removes what configures allocnet, CNI plugins and Nomad from the environment: TestMain of a
// package calls it whose tests run the command line in their own process.
func ClearEnvironment() error {
	for _, variable := range os.Environ() {
		if configuration.MatchString(variable) && !forTests.MatchString(variable) {
			name, _, _ := strings.Cut(variable, "=")
			if err := os.Unsetenv(name); err != nil {
				return err
			}
		}
	}
	return nil
}
