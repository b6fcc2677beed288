// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package unit

import (
	"os"
	"path/filepath"
	"testing"
)

func TestOutcome(t *testing.T) {
	for text, want := range map[string]struct {
		code  int
		ended bool
	}{
		"":                         {0, false}, // the unit was never started
		"resources  \n":            {0, false}, // it was, but not its command
		"exit-code exited 7\n":     {7, true},
		"exit-code exited 1\n":     {1, true},
		"success exited 0\n":       {0, true},
		"success exited 7\n":       {0, true}, // SuccessExitStatus=7
		"success killed TERM\n":    {0, true}, // as systemctl stop does
		"signal killed KILL\n":     {137, true},
		"timeout killed KILL\n":    {137, true},
		"core-dump dumped ABRT\n":  {134, true},
		"signal killed NONE\n":     {0, false},
		"exit-code exited seven\n": {0, false},
	} {
		if code, ended := parseOutcome(text); code != want.code || ended != want.ended {
			t.Errorf("%q: %d %t, want %d %t", text, code, ended, want.code, want.ended)
		}
	}
	o, err := NewOutcome(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if _, ended := o.ExitCode(); ended {
		t.Error("a unit that has written nothing has ended")
	}
	o.Remove()
}

// TestAbandonedOutcomes: the file of a process that runs stays, that of a killed one
// is removed, and nothing else is.
func TestAbandonedOutcomes(t *testing.T) {
	dir := t.TempDir()
	o, err := NewOutcome(dir)
	if err != nil {
		t.Fatal(err)
	}
	abandoned, other := filepath.Join(dir, outcomePrefix+"1"), filepath.Join(dir, "other")
	for _, path := range []string{abandoned, other} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(other, filepath.Join(dir, outcomePrefix+"2")); err != nil {
		t.Fatal(err)
	}
	if err := RemoveAbandonedOutcomes(dir); err == nil {
		t.Error("a link was followed")
	}
	for path, want := range map[string]bool{o.file.Name(): true, abandoned: false, other: true} {
		if _, err := os.Lstat(path); (err == nil) != want {
			t.Errorf("%s is there: %t, want %t", path, err == nil, want)
		}
	}
	o.Remove()
	if _, err := os.Lstat(o.file.Name()); err == nil {
		t.Error("it is still there")
	}
}
