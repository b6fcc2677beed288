// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/allocnet/allocnet/state"
)

// TestAskedAgain: what has begun to live since the plan stays, and so does all when
// the answer cannot be had.
func TestAskedAgain(t *testing.T) {
	store, err := state.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	objects := map[string][]Object{}
	for _, id := range []string{"dead", "begun"} {
		path := filepath.Join(dir, id)
		if err := os.WriteFile(path, []byte(id), 0o600); err != nil {
			t.Fatal(err)
		}
		objects[id] = []Object{{Kind: Tuning, Owner: Owner{Allocation: id}, Where: path, file: &file{path: path, content: id}}}
	}
	left := func() (n int) {
		entries, _ := os.ReadDir(dir)
		return len(entries)
	}
	c := Collector{Store: store, RefreshLive: func(context.Context) (Live, error) { return nil, errors.New("no route to host") }}
	remove := func() error {
		_, err := c.removeBatch(t.Context(), []string{"dead", "begun"}, objects, &scanResult{}, &Report{})
		return err
	}
	if err := remove(); err == nil || left() != 2 {
		t.Errorf("unknown: %v, %d files are left, want an error and 2", err, left())
	}
	c.RefreshLive = func(context.Context) (Live, error) {
		return func(id string) string { return map[string]string{"begun": "Nomad"}[id] }, nil
	}
	if err := remove(); err != nil || left() != 1 {
		t.Errorf("one lives: %v, %d files are left, want 1", err, left())
	}
}
