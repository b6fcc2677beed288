// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package leases

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
)

// TestLocked: who waits for the lock in vain is told which one.
func TestLocked(t *testing.T) {
	dir := t.TempDir()
	held, err := Open(t.Context(), dir, "n")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = held.Close() }() // nothing was written
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := Open(ctx, dir, "n"); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), filepath.Join(dir, "n", "lock")+", which another process has") {
		t.Errorf("the error is %v", err)
	}
}
