// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/roottest"
)

// TestRootGo: in a sandbox the go command finds itself, its caches, the module and others, and where it works; and this program is where
// it was started.
func TestRootGo(t *testing.T) {
	roottest.Require(t)
	if _, err := os.Stat(os.Args[0]); err != nil {
		t.Error(err)
	}
	t.Setenv("CGO_ENABLED", "0") // else it compiles
	if out, err := exec.Command("go", "list", "-compiled", "-deps", ".").CombinedOutput(); err != nil || !strings.Contains(string(out), "github.com/vishvananda/netlink") {
		t.Errorf("%v\n%s", err, out)
	}
	out, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(strings.TrimSpace(string(out))); err != nil || len(entries) == 0 {
		t.Errorf("GOCACHE: %v, %d entries", err, len(entries))
	}
}

// TestRootNeededBelowHidden: what tests need is there wherever the machine has it, also below directories that a sandbox
// hides: the module, Go, its caches, and the directory for temporary files.
func TestRootNeededBelowHidden(t *testing.T) {
	roottest.Require(t)
	out, err := exec.Command("go", "env", "GOROOT", "GOMODCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	words := strings.Fields(string(out))
	places := map[string]string{"/var/lib/user/module": Root(), "/var/lib/user/go": words[0], "/srv/modules": words[1]}
	for path, source := range places {
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount(source, path, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := unix.Unmount(path, unix.MNT_DETACH); err != nil {
				t.Error(err)
			}
		})
	}
	for _, dir := range []string{"/run/temporary", "/run/work", "/run/cache/of-the-machine"} {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Dir(program), "/run/link"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove("/run/link") })
	cmd := exec.Command("/run/link/"+filepath.Base(program), "-test.v", "-test.run=^TestRootGo$")
	cmd.Dir = "/var/lib/user/module/internal/sandbox"
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, inside+"=") }),
		"PWD="+cmd.Dir, "PATH=/var/lib/user/go/bin:"+os.Getenv("PATH"), "GOROOT=", "GOTOOLCHAIN=local", "GOMODCACHE=/srv/modules", "GOCACHE=/run/cache", "GOTMPDIR=/run/work", "TMPDIR=/run/temporary")
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestRootGo") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestRootProgramInHidden: tests whose program is in a directory that has to be empty do not run: they would change what the machine has there.
func TestRootProgramInHidden(t *testing.T) {
	roottest.Require(t)
	program, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	const path = "/run/hidden.test"
	if err := os.WriteFile(path, program, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(path) })
	cmd := exec.Command(path, "-test.v", "-test.run=^TestClearEnvironment$")
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, inside+"=") })
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "/run has to be empty") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestRootCover: a covered directory has what is needed of it and nothing else, and one that is needed itself is refused.
func TestRootCover(t *testing.T) {
	roottest.Require(t)
	dir := t.TempDir()
	write := func(name string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		WriteFile(t, path, name)
		return path
	}
	file, inDir, other := write("config/env"), write("user/module/go.mod"), write("user/other")
	paths := []string{file, filepath.Dir(inDir), filepath.Join(dir+"-longer", "x")}
	before := kept
	t.Cleanup(func() { kept = before })
	mount := func() error { return unix.Mount("tmpfs", dir, "tmpfs", 0, "") }
	if err := overExcept(dir, []string{dir}, mount); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("one that is needed itself: %v", err)
	}
	if _, err := os.Stat(other); err != nil {
		t.Errorf("one that is needed itself: %v", err)
	}
	if err := overExcept(dir, paths, mount); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	for _, path := range []string{file, inDir} {
		if text, err := os.ReadFile(path); err != nil || string(text) != strings.TrimPrefix(path, dir+"/") {
			t.Errorf("%s: %v, %q", path, err, text)
		}
	}
	if _, err := os.Stat(other); !os.IsNotExist(err) {
		t.Errorf("what is not needed is there: %v", err)
	}
	if !IsKept(file) || !IsKept(filepath.Dir(inDir)) || IsKept(filepath.Dir(file)) || !HasKept(filepath.Dir(file)) || HasKept(dir+"-longer") {
		t.Errorf("kept are %q", kept)
	}
	if listed := listFiles(t, dir); strings.Contains(listed, "go.mod") {
		t.Errorf("a snapshot has what is of the machine:\n%s", listed)
	}
}
