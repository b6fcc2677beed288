// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package watch reports changes of CNI configuration directories. It is separate from
// cniconf so that the CNI plugin does not link fsnotify.
package watch

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Quiet is the time without an event after which a change is reported: a package that
// installs several files is one change.
const Quiet = 200 * time.Millisecond

// interval is the time after which a link that leads to another directory is noticed, of
// which the kernel does not tell.
const interval = 30 * time.Second

// Dirs reports changes in directories and their subdirectories, also when one is
// created or removed, until ctx ends; then the channel is closed. Several changes at a
// time, and those while the caller does not receive, are reported as one.
func Dirs(ctx context.Context, dirs ...string) (<-chan struct{}, error) {
	return after(ctx, Quiet, dirs)
}

// after is Dirs with another time for Quiet.
func after(ctx context.Context, quiet time.Duration, dirs []string) (<-chan struct{}, error) {
	w, err := newWatch(dirs)
	if err != nil {
		return nil, err
	}
	w.quiet = quiet
	go w.run(ctx, interval)
	return w.changed, nil
}

// Follow calls do, and again after each change that Dirs reports with another time for Quiet, until ctx ends. Where changes cannot be heard of,
// deaf is called with the error first, and do once.
func Follow(ctx context.Context, quiet time.Duration, dirs []string, deaf func(error), do func()) {
	changed, err := after(ctx, quiet, dirs)
	if err != nil {
		deaf(err)
	}
	for {
		do()
		select {
		case <-ctx.Done():
			return
		case _, open := <-changed:
			if !open {
				return
			}
		}
	}
}

type watch struct {
	watcher *fsnotify.Watcher
	dirs    []string
	// targets are where the directories lead to, in their order.
	targets []string
	changed chan struct{}
	quiet   time.Duration
}

func newWatch(dirs []string) (*watch, error) {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("watch %v: %w", dirs, err)
	}
	w := &watch{watcher: watcher, dirs: dirs, changed: make(chan struct{}, 1), quiet: Quiet}
	w.addAll()
	return w, nil
}

func (w *watch) run(ctx context.Context, every time.Duration) {
	defer close(w.changed)
	defer w.watcher.Close() //nolint:errcheck // read only
	quiet := time.NewTimer(w.quiet)
	quiet.Stop()
	links := time.NewTicker(every)
	defer links.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.watcher.Events:
			quiet.Reset(w.quiet)
		case <-w.watcher.Errors: //nolint:errcheck // events were lost, so any file may have changed
			quiet.Reset(w.quiet)
		case <-links.C:
			if !slices.Equal(w.targets, targetsOf(w.dirs)) {
				quiet.Reset(w.quiet)
			}
		case <-quiet.C:
			w.addAll()
			select {
			case w.changed <- struct{}{}:
			default: // the last report was not received yet
			}
		}
	}
}

// targetsOf returns where directories lead to; one that is missing is itself.
func targetsOf(dirs []string) []string {
	targets := slices.Clone(dirs)
	for i, dir := range dirs {
		if target, err := filepath.EvalSymlinks(dir); err == nil {
			targets[i] = target
		}
	}
	return targets
}

// addAll watches the directories that exist. Adding one twice is one watch. If one leads
// to another place than before, the watches begin anew: they would stay with the old one.
func (w *watch) addAll() {
	if targets := targetsOf(w.dirs); !slices.Equal(w.targets, targets) {
		for _, old := range w.watcher.WatchList() {
			_ = w.watcher.Remove(old) // it may be removed
		}
		w.targets = targets
	}
	for _, dir := range w.targets {
		if w.watcher.Add(dir) != nil {
			w.addParent(dir)
			continue
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue // removed since, which is an event
		}
		for _, entry := range entries {
			if entry.IsDir() {
				_ = w.watcher.Add(filepath.Join(dir, entry.Name())) // it may be removed
			}
		}
	}
}

// addParent watches the nearest existing parent of a missing directory.
func (w *watch) addParent(dir string) {
	for parent := filepath.Dir(dir); ; parent = filepath.Dir(parent) {
		if w.watcher.Add(parent) == nil || parent == filepath.Dir(parent) {
			return
		}
	}
}
