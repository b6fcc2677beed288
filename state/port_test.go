// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestLockPorts: a call that chooses a port excludes all others, and those that
// choose none do not exclude each other.
func TestLockPorts(t *testing.T) {
	for name, test := range map[string]struct{ first, second, excluded bool }{
		"both choose":       {true, true, true},
		"the first chooses": {true, false, true},
		"the other chooses": {false, true, true},
		"neither chooses":   {false, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Open(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			unlock, err := s.LockPorts(t.Context(), test.first)
			if err != nil {
				t.Fatal(err)
			}
			defer unlock()
			ctx := t.Context()
			if test.excluded { // then it ends, when it has waited
				var stop context.CancelFunc
				ctx, stop = context.WithTimeout(ctx, 20*time.Millisecond)
				defer stop()
			}
			again, err := s.LockPorts(ctx, test.second)
			if err == nil {
				again()
			}
			if (err != nil) != test.excluded {
				t.Errorf("the second call got %v, want it excluded: %t", err, test.excluded)
			}
		})
	}
}

// TestChosenPorts: the records that can have chosen ports are found by their
// marks, which leave with the record, or with the lock of a killed process.
func TestChosenPorts(t *testing.T) {
	s := open(t)
	chosen := attachment("net1", "")
	chosen.ChosenPorts = []byte("[]")
	for id, a := range map[string]Attachment{"assigned": attachment("net1", ""), "chosen": chosen} {
		l := lock(t, s, id)
		must(t, l.Begin(Allocation{ID: id, Mode: ModeSetup}, []Attachment{a}))
		l.Unlock()
	}
	killed := lock(t, s, "killed")
	must(t, killed.addMark(portMarks))
	lost := lock(t, s, "lost")
	must(t, lost.Begin(Allocation{ID: "lost", Mode: ModeSetup}, []Attachment{chosen}))
	must(t, os.RemoveAll(lost.journal.dir))
	must(t, lost.file.Close()) // as kill -9 does
	var found []string
	for r, err := range s.ListChosen(t.Context()) {
		must(t, err)
		found = append(found, r.Allocation.ID)
	}
	if len(found) != 1 || found[0] != "chosen" {
		t.Errorf("found %v, want chosen alone", found)
	}
	killed.Unlock()
	l := lock(t, s, "chosen")
	must(t, l.Clear())
	l.Unlock()
	lost.release()
	must(t, os.Remove(s.lockPath("lost")))
	must(t, s.RemoveStale())
	if left, err := marked(filepath.Join(s.dir, portMarks)); err != nil || len(left) != 0 {
		t.Errorf("marks left: %v, %v", left, err)
	}
}
