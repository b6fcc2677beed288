// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package conventions

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// runMake makes a file below a build directory, with programs that are shell scripts, and returns that directory.
func runMake(t *testing.T, file string, programs map[string]string) (build string, err error) {
	t.Helper()
	build = t.TempDir()
	bin := t.TempDir()
	for name, script := range programs {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	read(t, "../../GNUmakefile") // a change of it invalidates the cached result
	cmd := exec.Command("make", "BUILD="+build, filepath.Join(build, file))
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "MAKEFLAGS=") // not those of the make that runs tests
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	return build, err
}

// TestHalfMade: what a command of set-up has begun to write when it fails is not there for the next run, which would
// take it for a result.
func TestHalfMade(t *testing.T) {
	const fail = `while [ "$1" != -C ]; do shift; done; echo half >"$2/axe.min.js"; exit 1`
	build, err := runMake(t, "axe/axe.min.js", map[string]string{"gcc": "", "curl": "", "sha256sum": "", "tar": fail})
	if err == nil {
		t.Error("make has not failed")
	}
	if _, err := os.Stat(filepath.Join(build, "axe")); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Join(build, "axe", "*.js")); left != nil {
		t.Errorf("left: %v", left)
	}
}

// TestToolsNeedNoCompiler: set-up builds them while it installs a compiler, which works some seconds after it is there.
func TestToolsNeedNoCompiler(t *testing.T) {
	source := t.TempDir() // of golangci-lint
	if err := os.MkdirAll(filepath.Join(source, "pkg/lint/lintersdb"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"golangci-lint", "actionlint", "benchstat", "nfpm", "sbom", "site"} {
		seen := filepath.Join(t.TempDir(), "cgo")
		goTool := "case $1 in build) echo $CGO_ENABLED >" + seen + ";; list) echo " + source + ";; esac"
		if _, err := runMake(t, "tools/"+name, map[string]string{"go": goTool}); err != nil {
			t.Error(err)
		}
		if got, err := os.ReadFile(seen); err != nil || strings.TrimSpace(string(got)) != "0" {
			t.Errorf("%s is built with CGO_ENABLED=%q, %v; want 0", name, got, err)
		}
	}
}

// TestPhase: a phase has the descriptors of its caller, of which make has some for the jobs that run at a time, and its exit code.
func TestPhase(t *testing.T) {
	read(t, "../../tools/phase.sh") // a change of it invalidates the cached result
	inherited, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer inherited.Close()
	cmd := exec.Command("../../tools/phase.sh", "a name", "sh", "-c", "echo of a job >&3; exec 3>&-; echo of another one >&4; echo an error >&2; exit 7")
	cmd.ExtraFiles = []*os.File{inherited, inherited}
	out, err := cmd.Output()
	failed, ok := errors.AsType[*exec.ExitError](err)
	if !ok || failed.ExitCode() != 7 || string(failed.Stderr) != "an error\n" || !strings.HasSuffix(string(out), " of CPU, failed with exit code 7\n") {
		t.Errorf("%v: %s", err, out)
	}
	if written, err := os.ReadFile(inherited.Name()); err != nil || string(written) != "of a job\nof another one\n" {
		t.Errorf("descriptors 3 and 4 got %q, %v", written, err)
	}
}
