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

// LockPorts is held from looking for a host port in the records of others until
// the own record has it: of two calls that want one port the second sees the
// first's record.
func (s *Store) LockPorts(ctx context.Context) (unlock func(), err error) {
	path := filepath.Join(s.dir, "ports")
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("lock ports: %w", err)
	}
	dir, err := lockDir(ctx, path, unix.LOCK_EX)
	if err != nil {
		return nil, err
	}
	return func() { flock.Close(dir) }, nil
}
