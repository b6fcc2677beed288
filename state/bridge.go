// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"context"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/files"
)

// bridgeLock is the directory whose lock LockBridges takes.
const bridgeLock = "bridges"

// LockBridges is held while the MTU of a bridge is read and set: setting it goes
// through another value, which no other call may take for the bridge's own.
func (s *Store) LockBridges(ctx context.Context) (unlock func(), err error) {
	dir, err := lockDir(ctx, filepath.Join(s.dir, bridgeLock), unix.LOCK_EX)
	if err != nil {
		return nil, err
	}
	return func() { files.CloseLocked(dir) }, nil
}
