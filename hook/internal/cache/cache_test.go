// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cache

import (
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A FIFO instead of the directory of results is an error at once: opening it would wait, and
// no deadline would end that.
func TestResultsAreNoDirectory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "results")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 1)
	go func() {
		_, err := read(path, "own")
		failed <- err
	}()
	select {
	case err := <-failed:
		if err == nil {
			t.Error("a FIFO is taken for an empty directory")
		}
	case <-time.After(time.Minute):
		t.Error("reading it does not end")
	}
}
