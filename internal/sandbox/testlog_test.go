// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package sandbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// inModule makes an empty module the working directory, and returns it.
func inModule(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(dir+"/build", 0o755); err != nil {
		t.Fatal(err)
	}
	WriteFile(t, dir+"/GNUmakefile", "")
	t.Chdir(dir)
	return dir
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
	t.Setenv(hashVariable, "1")
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

// TestNeverKept: without a hash of the programs, the log has a file that Go takes for too new even when
// it is late.
func TestNeverKept(t *testing.T) {
	t.Setenv(hashVariable, "")
	lines := joined(t, inModule(t))
	path, found := strings.CutPrefix(lines[len(lines)-1], "open ")
	info, err := os.Stat(path)
	if !found || filepath.Base(path) != "programs.fresh" || err != nil || time.Until(info.ModTime()) < time.Hour {
		t.Errorf("the last line is %q, and the file %v (%v): want one of tomorrow", lines[len(lines)-1], info, err)
	}
}
