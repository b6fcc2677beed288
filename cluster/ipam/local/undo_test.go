// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package local

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/allocnet/allocnet/cluster/ipam"
)

// TestFailedWrite: an address whose lease could not be written is as it was, and needs no
// cooldown.
func TestFailedWrite(t *testing.T) {
	h := newHost(t, small)
	_, _, err := h.Take(t.Context(), owner("a"), h.config.Families(), func() ([]ipam.Block, error) {
		return h.blocks, os.RemoveAll(filepath.Dir(h.path("10.0.0.2"))) // under the lease lock
	})
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a directory for the lease: %v, want %v", err, fs.ErrNotExist)
	}
	h.requireTake("a", "10.0.0.2")
}

// TestRemovedByOthers: the cooldown of an address whose lease another program has removed
// begins with the next attachment, and not when the pool is full.
func TestRemovedByOthers(t *testing.T) {
	h := newHost(t, small)
	h.requireTake("a", "10.0.0.2")
	if err := os.Remove(h.path("10.0.0.2")); err != nil {
		t.Fatal(err)
	}
	h.requireTake("b", "10.0.0.3")
	h.requireTake("c", "10.0.0.4")
	h.requireTake("d", "10.0.0.5")
	h.clock = h.clock.Add(time.Minute)
	h.requireTake("e", "10.0.0.2")
}
