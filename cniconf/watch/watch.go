// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package watch tells when a conf directory changes. It is apart from cniconf so
// that a CNI plugin does not link what it does not need.
package watch

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// settle is how long files have to be left alone before a change is reported:
// a package that installs several is one change.
const settle = 200 * time.Millisecond

// Dirs reports changes in directories, in the directories right below them,
// and their coming and going, until ctx ends; then the channel is closed. Of
// many changes at a time, and of those while nobody receives, one is reported.
func Dirs(ctx context.Context, dirs ...string) (<-chan struct{}, error) {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("watch %v: %w", dirs, err)
	}
	w := &watch{watcher: watcher, dirs: dirs, changed: make(chan struct{}, 1)}
	w.addAll()
	go w.run(ctx)
	return w.changed, nil
}

type watch struct {
	watcher *fsnotify.Watcher
	dirs    []string
	changed chan struct{}
}

func (w *watch) run(ctx context.Context) {
	defer close(w.changed)
	defer w.watcher.Close() //nolint:errcheck // nothing to lose
	quiet := time.NewTimer(settle)
	quiet.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.watcher.Events:
			quiet.Reset(settle)
		case <-w.watcher.Errors: //nolint:errcheck // whatever it says, events were lost, so anything may have changed
			quiet.Reset(settle)
		case <-quiet.C:
			w.addAll()
			select {
			case w.changed <- struct{}{}:
			default: // one is waiting already
			}
		}
	}
}

// addAll watches what exists now. Adding a directory twice is one watch.
func (w *watch) addAll() {
	for _, dir := range w.dirs {
		if w.watcher.Add(dir) != nil {
			w.addParent(dir)
			continue
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue // it went, which is an event
		}
		for _, entry := range entries {
			if entry.IsDir() {
				_ = w.watcher.Add(filepath.Join(dir, entry.Name())) // it may have gone
			}
		}
	}
}

// addParent watches the nearest directory above one that does not exist.
func (w *watch) addParent(dir string) {
	for parent := filepath.Dir(dir); ; parent = filepath.Dir(parent) {
		if w.watcher.Add(parent) == nil || parent == filepath.Dir(parent) {
			return
		}
	}
}
