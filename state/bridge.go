// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/files"
)

// bridgeLock is the directory whose lock LockBridges takes.
const bridgeLock = "bridges"

// LockBridges is held while settings of a bridge are read and set: the MTU is set through another
// value, and a plugin changes accept_ra, which no other call may take for the bridge's own.
func (s *Store) LockBridges(ctx context.Context) (unlock func(), err error) {
	return files.LockDir(ctx, filepath.Join(s.dir, bridgeLock), unix.LOCK_EX)
}

// SetAcceptRA records the accept_ra of a bridge before a plugin changes it, after the ID of this boot; empty: it is restored. It
// need not outlast a power cut, as the bridge does not. The caller holds LockBridges.
func (s *Store) SetAcceptRA(bridge, acceptRA string) error {
	path, err := s.bridge(bridge)
	if err != nil {
		return err
	}
	if acceptRA == "" {
		return s.intercept("remove", path, func() error { return os.Remove(path) })
	}
	boot, err := BootID()
	if err != nil {
		return err
	}
	return s.intercept("write", path, func() error { return files.Replace(path, []byte(boot+" "+acceptRA), files.Options{}) })
}

// AcceptRA returns the accept_ra that a bridge had before a plugin changed it; empty if all is restored. A file that has none is
// of an earlier boot, and was torn by a power cut.
func (s *Store) AcceptRA(bridge string) (string, error) {
	path, err := s.bridge(bridge)
	if err != nil {
		return "", err
	}
	data, err := files.ReadNoFollow(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	boot, err := BootID()
	acceptRA, isOfThisBoot := strings.CutPrefix(string(data), boot+" ")
	if err != nil || !isOfThisBoot {
		return "", err
	}
	return acceptRA, nil
}

// bridge returns the file for a bridge of that name.
func (s *Store) bridge(name string) (string, error) {
	if filepath.Base(name) != name || name == ".." || name == "." {
		return "", fmt.Errorf("bridge %q: want the name of a link", name)
	}
	return filepath.Join(s.dir, bridgeLock, name), nil
}
