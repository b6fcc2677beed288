// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/allocnet/allocnet/cluster/ipam"
)

// linkName is that of a link to the directory of the leases, beside the histories. It is read,
// and never followed: what makes it a link is that the first of several processes makes it in one
// step.
const linkName = "dataDir"

func (a *Addresses) link() string { return filepath.Join(filepath.Dir(a.dir), linkName) }

// useDataDir puts the directory of the leases on record, and refuses another one than that on
// record: an address with a lease there would count as free.
func (a *Addresses) useDataDir() error {
	if err := a.checkDataDir(); err != nil {
		return err
	}
	if _, err := os.Lstat(a.link()); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(a.link()), 0o700); err != nil {
		return err
	}
	if err := os.Symlink(filepath.Clean(a.config.DataDir), a.link()); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return a.checkDataDir()
}

// checkDataDir refuses another directory of the leases than the one on record.
func (a *Addresses) checkDataDir() error {
	dir, err := a.dataDir()
	if err != nil || dir == filepath.Clean(a.config.DataDir) {
		return err
	}
	return fmt.Errorf("%w: dataDir is %s, and this host has its leases of pool %s in %s: want that directory, or, if no attachment of this host has an address of the pool, remove %s",
		ipam.ErrInvalid, a.config.DataDir, a.config.Pool, dir, a.link())
}

// dataDir returns the directory on record, so that what is leased counts as such whatever is
// configured. Without one it is the configured directory.
func (a *Addresses) dataDir() (string, error) {
	dir, err := os.Readlink(a.link())
	if errors.Is(err, fs.ErrNotExist) {
		return filepath.Clean(a.config.DataDir), nil
	}
	return dir, err
}
