// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package chaos

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
)

// run is an operation in flight in a process that can be killed.
type run struct {
	process *os.Process
	// done is closed when the operation has ended, killed or not.
	done <-chan struct{}
}

// length is how long an operation takes without a kill.
type length struct {
	time time.Duration
	// changes is how many times files of the state directory change.
	changes int
}

// instant is when to kill: a part of an operation's length, in time or in
// changes of the state directory.
type instant struct {
	part   float64
	change bool
}

// someInstant returns a random instant of the operation, or shortly after its end.
func someInstant(random *rand.Rand) instant {
	return instant{part: random.Float64() * 1.05, change: random.IntN(3) == 0}
}

func (i instant) of(l length) string {
	if i.change {
		return fmt.Sprintf("at change %d of %d in the state directory", i.count(l), l.changes)
	}
	return fmt.Sprintf("after %v of %v", i.wait(l), l.time)
}

func (i instant) wait(l length) time.Duration { return time.Duration(i.part * float64(l.time)) }

func (i instant) count(l length) int { return 1 + int(i.part*float64(l.changes)) }

// kill waits for the instant and kills. It returns whether the operation was
// in flight, when it has ended.
func (i instant) kill(l length, changes *fsnotify.Watcher, r run) bool {
	i.await(l, changes, r)
	killed := true
	select {
	case <-r.done:
		killed = false
	default:
	}
	_ = r.process.Kill() // an error: it has ended
	<-r.done
	return killed
}

func (i instant) await(l length, changes *fsnotify.Watcher, r run) {
	if !i.change {
		select {
		case <-time.After(i.wait(l)):
		case <-r.done:
		}
		return
	}
	for range i.count(l) {
		select {
		case <-changes.Events:
		case <-r.done:
			return
		}
	}
}

// watchState reports changes of the state directory's files. The directories of
// the allocations that are about to be set up are made before, so that not even
// the first change is missed.
func watchState(t testing.TB, dir string, fresh []string) *fsnotify.Watcher {
	t.Helper()
	w, err := fsnotify.NewBufferedWatcher(4096)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range fresh {
		if err := os.MkdirAll(filepath.Join(dir, "allocations", id), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	dirs, err := filepath.Glob(dir + "/allocations/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range append(dirs, dir+"/allocations", dir+"/locks") {
		if err := w.Add(path); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// measure lets an operation end by itself.
func measure(changes *fsnotify.Watcher, start func() run) (l length) {
	began := time.Now()
	r := start()
	settled := make(<-chan time.Time)
	for {
		select {
		case <-changes.Events:
			l.changes++
		case <-r.done:
			l.time, r.done = time.Since(began), nil
			settled = time.After(100 * time.Millisecond) // notifications of the last changes may be queued
		case <-settled:
			return l
		}
	}
}
