// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/internal/exhaustive"
	"github.com/allocnet/allocnet/state"
)

// damageLine replaces a line of a journal, from 1, by what how makes of it.
func damageLine(t *testing.T, path string, line int, how func([]byte) []byte) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(data, []byte("\n"))
	lines[line-1] = append(how(bytes.TrimSuffix(lines[line-1], []byte("\n"))), '\n')
	if err := os.WriteFile(path, bytes.Join(lines, nil), 0o600); err != nil {
		t.Fatal(err)
	}
}

var damages = map[string]func([]byte) []byte{
	"a flipped bit": func(b []byte) []byte { b[len(b)/2] ^= 1; return b },
	"cut":           func(b []byte) []byte { return b[:len(b)/2] },
	"zeros":         func(b []byte) []byte { return make([]byte, len(b)) },
	"gone":          func([]byte) []byte { return nil },
}

// TestDamageOfEachLine: whatever line of a record is damaged, and how, the allocation
// is kept until a teardown, which removes all of it. Another Setup or Extend repairs
// the record or changes nothing.
func TestDamageOfEachLine(t *testing.T) {
	journal := func(w *world) string { return filepath.Join(w.config.StateDir, "allocations", "own", "journal") }
	w := killable{find: inTurn(setup(ownRequest), extend(extendRequest))}.world(t, install(t))
	intact := w.keep(t)
	data, err := os.ReadFile(journal(w))
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Count(data, []byte("\n")) {
		for name, how := range damages {
			for call, do := range map[string]func(*world) error{
				"nothing": func(*world) error { return nil },
				"GC":      collect, "Setup": setup(ownRequest), "Extend": extend(extendRequest),
				"Repair": func(w *world) error { return w.RepairRecord(w.ctx, "own") },
				"Check":  func(w *world) error { _, err := w.Check(w.ctx, "own"); return err },
			} {
				exhaustive.Run(t, fmt.Sprintf("line %d, %s/%s", line+1, name, call), func(t *testing.T) {
					intact(t)
					objects := len(w.objects)
					damageLine(t, journal(w), line+1, how)
					err := do(w)
					if len(w.objects) != objects || len(w.wrong) > 0 {
						t.Errorf("%v: objects are %v, want %d; %v", err, w.objects, objects, w.wrong)
					}
					checkDamage(t, w, call, err)
					if err := w.Teardown(t.Context(), "own"); err != nil {
						t.Error(err)
					}
					w.wantNothing()
				})
			}
		}
	}
}

// checkDamage: a call that did not fail found a record without damage or repaired it,
// and one that failed left it.
func checkDamage(t *testing.T, w *world, call string, err error) {
	t.Helper()
	a, statusErr := w.Status(t.Context(), "own")
	if statusErr != nil {
		t.Fatal(statusErr)
	}
	var damaged *DamagedRecordError
	switch {
	case err == nil && call != "nothing" && call != "GC" && len(a.Damaged) > 0:
		t.Errorf("%s succeeds and leaves the damage %v", call, a.Damaged)
	case errors.As(err, &damaged) && (len(a.Damaged) == 0 || len(damaged.Damaged) == 0 || errdefs.Of(err) != errdefs.Failed):
		t.Errorf("%s: %v, which Status does not show", call, err)
	}
}

// TestRepairedRecord: a damaged line about an attachment whose interface shows is
// written anew, and the damaged file is kept.
func TestRepairedRecord(t *testing.T) {
	w := killable{find: setup(ownRequest)}.world(t, install(t))
	before := summary(w)
	path := filepath.Join(w.config.StateDir, "allocations", "own", "journal")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	last := bytes.Count(data, []byte("\n"))
	damageLine(t, path, last, damages["cut"])
	if err := w.RepairRecord(t.Context(), "own"); err != nil {
		t.Fatal(err)
	}
	if after := summary(w); after != before {
		t.Errorf("before: %s\nafter: %s", before, after)
	}
	w.wantRecorded()
	if kept := readDir(t, filepath.Join(w.config.StateDir, "damaged", "own")); len(kept) != 1 || !strings.HasPrefix(kept[0], "journal") {
		t.Errorf("kept are %v", kept)
	}
	if err := w.RepairRecord(t.Context(), "own"); err != nil { // again
		t.Error(err)
	}
	if checked, err := w.Check(t.Context(), "own"); err != nil || len(checked) != 2 {
		t.Errorf("Check: %+v, %v", checked, err)
	}
}

// TestNotRepaired: what is not recorded, and what is dead.
func TestNotRepaired(t *testing.T) {
	w := killable{find: setup(ownRequest)}.world(t, install(t))
	if err := w.RepairRecord(t.Context(), "unknown"); !errors.Is(err, state.ErrNotFound) {
		t.Errorf("unknown: %v", err)
	}
	damageLine(t, filepath.Join(w.config.StateDir, "allocations", "own", "journal"), 2, damages["gone"])
	w.lose(filepath.Join(w.config.NetnsDir, "own"))
	var refused *DamagedRecordError
	if err := w.RepairRecord(t.Context(), "own"); !errors.As(err, &refused) || refused.Reason == nil || !errors.Is(err, refused.Reason) {
		t.Errorf("dead: %v, want *DamagedRecordError with its reason", err)
	}
}
