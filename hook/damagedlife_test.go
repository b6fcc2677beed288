// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/exhaustive"
)

type recordedLife struct {
	id   string
	make func(*world) error
	// again attaches all of it again.
	again func(*world) error
}

// recordedLives are allocations that live, with the journals that several calls have written.
var recordedLives = map[string]recordedLife{
	"set up":                  {"own", setup(ownRequest), setup(ownRequest)},
	"in a runtime's":          {"runtime", setup(runtimeRequest), setup(runtimeRequest)},
	"extended":                {"own", inTurn(setup(ownRequest), extend(extendRequest)), inTurn(setup(ownRequest), extend(extendRequest))},
	"for a task":              {"task", extend(taskRequest), extend(taskRequest)},
	"detached and extended":   {"own", inTurn(setup(ownInLine), extend(furtherInLine), detachFurther, extend(again)), inTurn(setup(ownInLine), extend(again))},
	"after one that failed":   {"own", inTurn(setup(ownInLine), failing(extend(furtherInLine), "ADD tuning further2"), extend(furtherInLine)), ownAndFurtherLine},
	"rolled back by the next": {"own", inTurn(ownAndFurtherLine, interrupted("own", "further2"), extend(furtherInLine)), ownAndFurtherLine},
}

// again attaches an interface that was detached, under its name.
var again = Request{ID: "own", Networks: furtherInLine.Networks[:1]}

func detachFurther(w *world) error {
	return errors.Join(w.Detach(w.ctx, "own", "further1"), w.Detach(w.ctx, "own", "further2"))
}

// ofHost is what allocations have on a host.
func (w *world) ofHost() string {
	w.mu.Lock()
	objects := slices.Sorted(maps.Keys(w.objects))
	w.mu.Unlock()
	text := strings.Join(objects, "\n")
	for _, path := range slices.Sorted(maps.Keys(w.namespaces.at)) {
		text += fmt.Sprintf("\n%s: %v", path, w.namespaces.interfaces(path))
	}
	return text
}

// sparing are the calls that change nothing of an allocation whose record is damaged, and that lives.
var sparing = map[string]func(w *world, id string) error{
	"GC":               func(w *world, _ string) error { _, err := w.GC(w.ctx, GCRequest{}); return err },
	"cleanup":          func(w *world, id string) error { return w.TearDownDead(w.ctx, id) },
	"cleanup --forget": func(w *world, id string) error { return w.Forget(w.ctx, id) },
	"a retry":          func(w *world, _ string) error { return w.RetryPending(w.ctx) },
	"the CHECK of Nomad": func(w *world, id string) error {
		return w.Verify(w.ctx, Verification{ID: id, Netns: filepath.Join(w.config.NetnsDir, id)})
	},
	"repair": func(w *world, _ string) error {
		_, err := w.RepairAttachments(w.ctx, RepairRequest{Mode: RepairReattach})
		return err
	},
	"check": func(w *world, id string) error { _, err := w.Check(w.ctx, id); return err },
}

// TestDamagedLives: however the journal of an allocation that lives is damaged, and wherever it was cut, also where a line ends,
// no call takes it for whole: nothing that lives is removed that is not to be, and the record stays.
func TestDamagedLives(t *testing.T) {
	i := install(t)
	for name, life := range recordedLives {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, i)
			if err := life.make(w); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(w.config.StateDir, "allocations", life.id, "journal")
			whole, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for what, journal := range damagedJournals(whole) {
				exhaustive.Run(t, what, func(t *testing.T) { w.requireDamaged(t, life.id, journal) })
			}
			for what, make := range map[string]func() error{
				"a directory": func() error { return os.Mkdir(path, 0o700) },
				"a pipe":      func() error { return unix.Mkfifo(path, 0o600) },
			} {
				if err := errors.Join(os.Remove(path), make()); err != nil {
					t.Fatal(err)
				}
				t.Run(what, func(t *testing.T) { w.requireUntouched(t, life.id, path) })
			}
		})
	}
}

// damagedJournals yields what may become of a journal.
func damagedJournals(whole []byte) iter.Seq2[string, []byte] {
	const step = 997 // of bytes; package state cuts at each
	const sizes = 311
	return func(yield func(string, []byte) bool) {
		yield("huge", slices.Concat(whole, bytes.Repeat([]byte("x"), 1<<20)))
		yield("zeros", make([]byte, len(whole)))
		for at := range whole {
			if isEnd := at > 0 && whole[at-1] == '\n'; !isEnd && at%step != 0 {
				continue
			}
			yield(fmt.Sprintf("cut at %d", at), whole[:at])
			if at > sizes { // the size may be smaller than it was
				flipped := slices.Clone(whole)
				flipped[at] ^= 1 << (at % 8)
				yield(fmt.Sprintf("flipped at %d", at), flipped)
			}
		}
		lines := bytes.SplitAfter(whole, []byte("\n"))
		for n, line := range lines[:len(lines)-1] {
			foreign := bytes.ReplaceAll(line, []byte(`"id":"`), []byte(`"id":"x`))
			yield(fmt.Sprintf("line %d is of another", n+1), bytes.Join(slices.Concat(lines[:n], [][]byte{foreign}, lines[n+1:]), nil))
			yield(fmt.Sprintf("line %d is missing", n+1), bytes.Join(slices.Concat(lines[:n], lines[n+1:]), nil))
		}
	}
}

// requireDamaged puts a journal in place that is not whole, and requires that nothing comes of it.
func (w *world) requireDamaged(t *testing.T, id string, journal []byte) {
	t.Helper()
	path := filepath.Join(w.config.StateDir, "allocations", id, "journal")
	if err := os.WriteFile(path, journal, 0o600); err != nil {
		t.Fatal(err)
	}
	if shown, err := w.Status(w.ctx, id); err == nil && len(shown.Damaged) == 0 { // such as a line of another text that says the same
		return
	}
	w.requireUntouched(t, id, path)
	if kept, err := os.ReadFile(path); err != nil || !bytes.Equal(kept, journal) {
		t.Errorf("the record has changed: %v", err)
	}
}

// requireUntouched makes all calls that must change nothing of an allocation with a damaged record.
func (w *world) requireUntouched(t *testing.T, id, path string) {
	t.Helper()
	before := w.ofHost()
	for name, call := range sparing {
		err := call(w, id)
		if after := w.ofHost(); after != before {
			t.Fatalf("%s (%v) has left\n%s\nof\n%s", name, err, after, before)
		}
		if strings.HasPrefix(name, "c") && (err == nil || !strings.Contains(err.Error(), path)) {
			t.Errorf("%s: %v, want that %s is damaged", name, err, path)
		}
	}
	shown, err := w.Status(w.ctx, id)
	if err != nil || len(shown.Damaged) == 0 || !strings.Contains(shown.Damaged[0], path) {
		t.Errorf("status: %+v, %v, want that %s is damaged", shown, err, path)
	}
}

// removing are the calls that may repair a damaged record, and remove a part of the allocation or all.
var removing = map[string]func(w *world, life recordedLife) error{
	"detach": func(w *world, life recordedLife) error { return w.Teardown(w.ctx, life.id) },
	"detach of an interface": func(w *world, life recordedLife) error {
		return w.Detach(w.ctx, life.id, map[string]string{"own": "further1", "runtime": "net1", "task": "net1"}[life.id])
	},
	"check --repair": func(w *world, life recordedLife) error {
		before := w.ofHost()
		if err := w.RepairRecord(w.ctx, life.id); err != nil {
			return err
		}
		_, err := w.GC(w.ctx, GCRequest{})
		if after := w.ofHost(); after != before {
			w.t.Errorf("after a repair GC has left\n%s\nof\n%s", after, before)
		}
		return err
	},
	"attach again": func(w *world, life recordedLife) error { return life.again(w) },
}

// TestCutIsNotDone: a call that repairs a record that was cut behind a line, or removes what is on it, fails, or leaves nothing of
// the allocation when it is detached.
func TestCutIsNotDone(t *testing.T) {
	i := install(t)
	for name, life := range recordedLives {
		for verb, call := range removing {
			exhaustive.Run(t, name+"/"+verb, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, i)
				if err := life.make(w); err != nil {
					t.Fatal(err)
				}
				found := w.keep(t)
				for lines, more := 0, true; more; lines++ {
					found(t)
					more = w.requireNotDone(t, life, call, lines)
				}
			})
		}
	}
}

// requireNotDone cuts the journal of an allocation behind a number of lines, and makes a call. It returns whether there are more.
func (w *world) requireNotDone(t *testing.T, life recordedLife, call func(*world, recordedLife) error, lines int) (more bool) {
	t.Helper()
	path := filepath.Join(w.config.StateDir, "allocations", life.id, "journal")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	all := bytes.SplitAfter(whole, []byte("\n"))
	if lines >= len(all)-1 {
		return false
	}
	if err := os.WriteFile(path, bytes.Join(all[:lines], nil), 0o600); err != nil {
		t.Fatal(err)
	}
	before := w.ofHost()
	if err := call(w, life); err != nil {
		return true
	}
	if err := w.Teardown(w.ctx, life.id); err == nil && len(w.objects) > 0 {
		t.Errorf("cut behind %d lines it is done, and leaves\n%s\nof\n%s", lines, w.ofHost(), before)
	}
	return true
}
