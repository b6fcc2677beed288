// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package sandbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReadyPrograms: tests run with the programs that the environment names, and with no others.
func TestReadyPrograms(t *testing.T) {
	inModule(t)
	program := filepath.Join(programDir(), "allocnet")
	if err := os.MkdirAll(programDir(), 0o700); err != nil {
		t.Fatal(err)
	}
	WriteFile(t, program, "as it was built")
	hash, err := hashPrograms()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(hashVariable, hash)
	if err := readyPrograms(); err != nil {
		t.Error(err)
	}
	WriteFile(t, program, "as it was built earlier")
	if err := readyPrograms(); err == nil || !strings.Contains(err.Error(), "run: make programs") {
		t.Errorf("another program: %v", err)
	}
	if err := os.RemoveAll(programDir()); err != nil {
		t.Fatal(err)
	}
	if err := readyPrograms(); err == nil || !strings.Contains(err.Error(), "run: make programs") {
		t.Errorf("no program: %v", err)
	}
	t.Chdir(Root())
	if err := readyPrograms(); err != nil {
		t.Errorf("no program, and a unit test: %v", err)
	}
}
