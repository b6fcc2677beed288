// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/files"
)

// CleanedBoot returns the boot for which the records of earlier ones were torn
// down; it is empty when there was none yet.
func (s *Store) CleanedBoot() (string, error) {
	data, err := files.IfExists(os.ReadFile(filepath.Join(s.dir, "boot")))
	return strings.TrimSpace(string(data)), err
}

// SetCleanedBoot records it. The caller holds LockCleaning.
func (s *Store) SetCleanedBoot(boot string) error {
	path := filepath.Join(s.dir, "boot")
	return s.disk("write", path, func() error { return files.Replace(path, []byte(boot+"\n"), files.Options{Durable: true}) })
}

// LockCleaning is held by the process that removes what earlier boots left.
func (s *Store) LockCleaning(ctx context.Context) (unlock func(), err error) {
	return files.LockDir(ctx, s.dir, unix.LOCK_EX)
}
