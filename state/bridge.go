// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/files"
)

// bridgeLock is the directory of Bridges.
const bridgeLock = "bridges"

// Bridges are the settings of the host's bridges, as they were before plugins changed them.
type Bridges struct {
	dir  string
	disk disk
}

// Bridges returns those on record.
func (s *Store) Bridges() Bridges { return Bridges{filepath.Join(s.dir, bridgeLock), s.disk} }

// Lock is held while settings of a bridge are read and set: the MTU is set through another
// value, and a plugin changes accept_ra, which no other call may take for the bridge's own.
func (b Bridges) Lock(ctx context.Context) (unlock func(), err error) {
	return files.LockDir(ctx, b.dir, unix.LOCK_EX)
}

// SetAcceptRA records the accept_ra of a bridge before a plugin changes it, after the ID of this boot; empty: it is restored. It
// need not outlast a power cut, as the bridge does not. The caller holds Lock.
func (b Bridges) SetAcceptRA(bridge, acceptRA string) error {
	path, err := b.file(bridge)
	if err != nil {
		return err
	}
	if acceptRA == "" {
		return b.disk("remove", path, func() error { return os.Remove(path) })
	}
	boot, err := BootID()
	if err != nil {
		return err
	}
	return b.disk("write", path, func() error { return files.Replace(path, []byte(boot+" "+acceptRA), files.Options{}) })
}

// AcceptRA returns the accept_ra that a bridge had before a plugin changed it; empty if all is restored. A file that has none is
// of an earlier boot, and was torn by a power cut.
func (b Bridges) AcceptRA(bridge string) (string, error) {
	path, err := b.file(bridge)
	if err != nil {
		return "", err
	}
	data, err := files.IfExists(files.ReadNoFollow(path))
	if err != nil || data == nil {
		return "", err
	}
	boot, err := BootID()
	acceptRA, isOfThisBoot := strings.CutPrefix(string(data), boot+" ")
	if err != nil || !isOfThisBoot {
		return "", err
	}
	return acceptRA, nil
}

// file returns the file for a bridge of that name.
func (b Bridges) file(name string) (string, error) {
	if filepath.Base(name) != name || name == ".." || name == "." {
		return "", fmt.Errorf("bridge %q: want the name of a link", name)
	}
	return filepath.Join(b.dir, name), nil
}
