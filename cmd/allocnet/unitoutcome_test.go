// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import "testing"

func TestUnitOutcome(t *testing.T) {
	for text, want := range map[string]struct {
		code  int
		ended bool
	}{
		"":               {0, false}, // the unit was never started
		" \n":            {0, false}, // it was, but not its command
		"exited 7\n":     {7, true},
		"exited 1\n":     {1, true},
		"exited 0\n":     {0, true},
		"killed KILL\n":  {137, true},
		"dumped ABRT\n":  {134, true},
		"killed NONE\n":  {128, false},
		"exited seven\n": {0, false},
	} {
		if code, ended := parseOutcome(text); code != want.code || ended != want.ended {
			t.Errorf("%q: %d %t, want %d %t", text, code, ended, want.code, want.ended)
		}
	}
	o, err := newUnitOutcome(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if _, ended := o.exitCode(); ended {
		t.Error("a unit that has written nothing has ended")
	}
	o.remove()
}
