// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/files"
)

func TestCleanedBoot(t *testing.T) {
	s := open(t)
	if boot, err := s.CleanedBoot(); err != nil || boot != "" {
		t.Errorf("at first: %q, %v", boot, err)
	}
	for _, want := range []string{"one", "two"} {
		must(t, s.SetCleanedBoot(want))
		if boot, err := s.CleanedBoot(); err != nil || boot != want {
			t.Errorf("got %q, %v, want %q", boot, err, want)
		}
	}
	s.Intercept((&failing{"write", unix.EIO}).intercept)
	if err := s.SetCleanedBoot("three"); !errors.Is(err, unix.EIO) {
		t.Errorf("write failed: %v", err)
	}
	if boot, err := s.CleanedBoot(); err != nil || boot != "two" {
		t.Errorf("write failed: got %q, %v, want the old one", boot, err)
	}
	must(t, os.Remove(filepath.Join(s.dir, "boot")))
	must(t, os.Mkdir(filepath.Join(s.dir, "boot"), 0o700))
	if _, err := s.CleanedBoot(); err == nil {
		t.Error("a directory is read")
	}
}

// failing fails every change of one kind.
type failing struct {
	op  string
	err error
}

func (f *failing) intercept(op, _ string, change func() error) error {
	if op == f.op {
		return f.err
	}
	return change()
}

// TestBootIsNotWrittenThroughALink, which another user could have left.
func TestBootIsNotWrittenThroughALink(t *testing.T) {
	s := open(t)
	target := filepath.Join(t.TempDir(), "target")
	must(t, os.WriteFile(target, nil, 0o600))
	must(t, os.Symlink(target, filepath.Join(s.dir, ".boot.new")))
	err := s.SetCleanedBoot("one")
	if data, _ := os.ReadFile(target); len(data) > 0 {
		t.Errorf("written through a link: %v", err)
	}
}

// TestLocksOfAStore exclude another process, end with their context, and say so
// where their directory is missing.
func TestLocksOfAStore(t *testing.T) {
	for name, test := range map[string]struct {
		dir  string
		lock func(*Store, context.Context) (func(), error)
	}{
		"of the boot":        {"", (*Store).LockCleaning},
		"of the bridges":     {bridgeLock, func(s *Store, ctx context.Context) (func(), error) { return s.Bridges().Lock(ctx) }},
		"of the host":        {"locks", (*Store).LockHost},
		"of all attachments": {"allocations", (*Store).RLockHost},
		"of the ports":       {portMarks, func(s *Store, ctx context.Context) (func(), error) { return s.LockPorts(ctx, true) }},
		"of the retries":     {pendingMarks, func(s *Store, _ context.Context) (func(), error) { return s.LockRetries() }},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			dir := filepath.Join(s.dir, test.dir)
			held, err := files.LockDir(t.Context(), dir, unix.LOCK_EX)
			must(t, err)
			ended, stop := context.WithCancel(t.Context())
			stop()
			if _, err := test.lock(s, ended); !errors.Is(err, context.Canceled) && !errors.Is(err, ErrLocked) {
				t.Errorf("another has it: %v", err)
			}
			held()
			unlock, err := test.lock(s, t.Context())
			must(t, err)
			unlock()
			must(t, os.RemoveAll(dir))
			if _, err := test.lock(s, t.Context()); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("without a directory: %v", err)
			}
		})
	}
}
