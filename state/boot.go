// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/flock"
)

// CleanedBoot returns the boot for which the records of earlier ones were torn
// down; it is empty when there was none yet.
func (s *Store) CleanedBoot() (string, error) {
	data, err := os.ReadFile(filepath.Join(s.dir, "boot"))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return strings.TrimSpace(string(data)), err
}

// SetCleanedBoot records it.
func (s *Store) SetCleanedBoot(boot string) error {
	temporary := filepath.Join(s.dir, ".boot")
	if err := s.intercept("write", temporary, func() error { return writeFile(temporary, []byte(boot+"\n")) }); err != nil {
		return err
	}
	return s.rename(temporary, filepath.Join(s.dir, "boot"))
}

// LockCleaning is held by the process that removes what earlier boots left.
func (s *Store) LockCleaning(ctx context.Context) (unlock func(), err error) {
	dir, err := lockDir(ctx, s.dir, unix.LOCK_EX)
	if err != nil {
		return nil, err
	}
	return func() { flock.Close(dir) }, nil
}

// writeFile writes a file that is on disk before it gets its name.
func writeFile(path string, data []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}
