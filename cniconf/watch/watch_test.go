// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package watch

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestDirs waits for a report after each change; the test's own deadline is
// the only clock.
func TestDirs(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "not", "there", "yet")
	ctx, stop := context.WithCancel(t.Context())
	changed, err := Dirs(ctx, dir)
	if err != nil {
		t.Fatal(err)
	}
	write := func(path string) func() error {
		return func() error { return os.WriteFile(filepath.Join(dir, path), []byte("{}"), 0o600) }
	}
	for _, change := range []struct {
		name string
		do   func() error
	}{
		{"the directory comes", func() error { return os.MkdirAll(dir, 0o700) }},
		{"a file comes", write("a.conf")},
		{"it changes", write("a.conf")},
		{"it is replaced", func() error {
			if err := write(".new")(); err != nil {
				return err
			}
			return os.Rename(filepath.Join(dir, ".new"), filepath.Join(dir, "a.conf"))
		}},
		{"a network's own directory comes", func() error { return os.Mkdir(filepath.Join(dir, "net"), 0o700) }},
		{"a file in it", write("net/b.conf")},
		{"a file goes", func() error { return os.Remove(filepath.Join(dir, "a.conf")) }},
		{"the directory goes", func() error { return os.RemoveAll(dir) }},
		{"it comes back", func() error { return os.Mkdir(dir, 0o700) }},
		{"a file in what came back", write("c.conf")},
	} {
		if err := change.do(); err != nil {
			t.Fatal(err)
		}
		if _, ok := <-changed; !ok {
			t.Fatalf("%s: the watch ended", change.name)
		}
		t.Logf("%s: reported", change.name)
	}
	stop()
	for range changed { // ends when the channel is closed
	}
}

// TestSwitchedLink: a directory that is a link leads to another one from now on.
func TestSwitchedLink(t *testing.T) {
	root := t.TempDir()
	link, next := filepath.Join(root, "nets"), filepath.Join(root, "r2")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(filepath.Join(root, "r1", "net"), 0o700))
	must(os.Mkdir(next, 0o700))
	must(os.Symlink("r1", link))
	w, err := newWatch([]string{link})
	must(err)
	go w.run(t.Context(), Quiet)
	must(os.Symlink("r2", link+".new"))
	must(os.Rename(link+".new", link))
	<-w.changed
	if watched := w.watcher.WatchList(); !slices.Equal(watched, []string{next}) {
		t.Errorf("watched is %v", watched)
	}
	must(os.WriteFile(filepath.Join(next, "a.conf"), nil, 0o600))
	<-w.changed
}
