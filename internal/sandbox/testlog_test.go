// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package sandbox

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// inModule makes e2e of an empty module the working directory, and returns the module.
func inModule(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, sub := range []string{"/build", "/e2e"} {
		if err := os.Mkdir(dir+sub, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	WriteFile(t, dir+"/GNUmakefile", "")
	t.Chdir(dir + "/e2e")
	return dir
}

// setHash sets the hash of the programs of the module, of which there is one.
func setHash(t *testing.T) {
	t.Helper()
	if err := os.MkdirAll(programDir(), 0o755); err != nil {
		t.Fatal(err)
	}
	WriteFile(t, programDir()+"/web", "1")
	hash, err := hashPrograms()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(hashVariable, hash)
}

// joined returns the lines of the log of two parts, of which the second has died.
func joined(t *testing.T, dir string) []string {
	t.Helper()
	log := testLog(dir + "/log")
	WriteFile(t, log.part(0), "# test log\ngetenv OF_A_TEST\n")
	if err := log.join(2); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(string(log))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

// TestInputs: Go learns of what the tests of a sandbox depend on, and it does not see itself.
func TestInputs(t *testing.T) {
	dir := inModule(t)
	Number("ALLOCNET_CHAOS_KILLS", 0)
	lines := "\n" + strings.Join(joined(t, dir), "\n") + "\n"
	for _, want := range []string{
		"getenv OF_A_TEST", "getenv " + hashVariable, "getenv " + raceVariable, "getenv ALLOCNET_EXECUTOR", "getenv ALLOCNET_IPAM",
		"getenv ALLOCNET_TEST_NOMAD", "getenv ALLOCNET_CHAOS_KILLS", "open " + dir + "/build/cni/bin", "open " + dir + "/build/nomad/nomad",
	} {
		if !strings.Contains(lines, "\n"+want+"\n") {
			t.Errorf("the log lacks %q:%s", want, lines)
		}
	}
}

// TestNeverKept: without a hash of the programs, and if they have been replaced, the log has a file that Go
// takes for too new even when it is late.
func TestNeverKept(t *testing.T) {
	dir := inModule(t)
	setHash(t)
	if lines := joined(t, dir); slices.ContainsFunc(lines, isFresh) {
		t.Errorf("the result would not be kept: %q", lines)
	}
	for _, name := range []string{nomadVariable, pluginsVariable} {
		t.Setenv(name, dir+"/build/other")
		if lines := joined(t, dir); slices.ContainsFunc(lines, isFresh) {
			t.Errorf("%s in the module, and the result would not be kept: %q", name, lines)
		}
		t.Setenv(name, dir+"-other")
		if lines := joined(t, dir); !slices.ContainsFunc(lines, isFresh) {
			t.Errorf("%s outside of the module, and the result would be kept: %q", name, lines)
		}
		t.Setenv(name, "")
	}
	WriteFile(t, programDir()+"/web", "2")
	if lines := joined(t, dir); !slices.ContainsFunc(lines, isFresh) {
		t.Errorf("a program was replaced, and the result would be kept: %q", lines)
	}
	t.Setenv(hashVariable, "")
	if lines := joined(t, dir); !slices.ContainsFunc(lines, isFresh) {
		t.Errorf("there is no hash, and the result would be kept: %q", lines)
	}
}

// isFresh is whether a line of the log names a file of tomorrow.
func isFresh(line string) bool {
	path, found := strings.CutPrefix(line, "open ")
	info, err := os.Stat(path)
	return found && err == nil && time.Until(info.ModTime()) > time.Hour
}
