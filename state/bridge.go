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

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/flock"
)

// LockBridges is held while the MTU of a bridge is read and set: setting it goes
// through another value, which no other call may take for the bridge's own.
func (s *Store) LockBridges(ctx context.Context) (unlock func(), err error) {
	path := filepath.Join(s.dir, "bridges")
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("lock bridges: %w", err)
	}
	dir, err := lockDir(ctx, path, unix.LOCK_EX)
	if err != nil {
		return nil, err
	}
	return func() { flock.Close(dir) }, nil
}
