// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package sandbox

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/files"
)

// hashVariable has the hash of the programs under test, so that Go runs a test again when one of them
// has changed. Without it, the tests build the programs themselves.
const hashVariable = "ALLOCNET_PROGRAMS"

// raceVariable, if it is set, has InstallRaced install programs with the race detector.
const raceVariable = "ALLOCNET_TEST_RACE"

// folders are the programs under test, by their folders in the module, and raced those that are
// built with the race detector, too.
var (
	folders = append([]string{"cmd/allocnet-ipam", "e2e/web", "e2e/traffic", "e2e/cluster/demo"}, raced...)
	raced   = []string{"cmd/allocnet", "cmd/allocnet-cni", "cmd/allocnet-cni-engine"}
)

// The environment and the flags with which make build builds, but for -trimpath: it would have the compiler
// make all packages again that it makes for the tests.
var (
	released      = []string{"CGO_ENABLED=0"}
	releasedFlags = []string{"-ldflags", "-s -w"}
)

func programDir() string { return filepath.Join(Root(), "build", "programs") }

func racedDir() string { return filepath.Join(programDir(), "race") }

// BuildPrograms builds all programs under test as they are released, below build, and returns their
// hash. A program that has not changed keeps its file. Several processes may call it at once.
func BuildPrograms() (hash string, err error) {
	if err := os.MkdirAll(racedDir(), 0o755); err != nil {
		return "", err
	}
	unlock, err := files.LockFile(context.Background(), filepath.Join(Root(), "build", "programs.lock"), unix.LOCK_EX)
	if err != nil {
		return "", err
	}
	defer unlock()
	if err := build(programDir(), released, releasedFlags, folders); err != nil {
		return "", err
	}
	if os.Getenv(raceVariable) != "" {
		if err := build(racedDir(), []string{"CGO_ENABLED=1"}, []string{"-race"}, raced); err != nil {
			return "", err
		}
	}
	return hashPrograms()
}

// build builds the programs of folders, and replaces those of a directory that differ.
func build(dir string, env, flags, folders []string) error {
	fresh, err := os.MkdirTemp(filepath.Dir(programDir()), "programs-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(fresh) //nolint:errcheck // it is below build
	if err := compile(fresh+"/", env, flags, folders); err != nil {
		return err
	}
	var errs []error
	for _, folder := range folders {
		errs = append(errs, replace(filepath.Join(fresh, filepath.Base(folder)), filepath.Join(dir, filepath.Base(folder))))
	}
	return errors.Join(errs...)
}

func compile(path string, env, flags, folders []string) error {
	words := append(append([]string{"build"}, flags...), "-o", path)
	for _, folder := range folders {
		words = append(words, "./"+folder)
	}
	cmd := exec.Command("go", words...)
	cmd.Dir, cmd.Env = Root(), append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %v: %w: %s", folders, err, out)
	}
	return nil
}

func replace(fresh, path string) error {
	now, err := os.ReadFile(fresh)
	if err != nil {
		return err
	}
	if before, err := os.ReadFile(path); err == nil && bytes.Equal(before, now) {
		return nil
	}
	return files.Replace(path, now, files.Options{Mode: 0o755})
}

func hashPrograms() (string, error) {
	sum := sha256.New()
	err := filepath.WalkDir(programDir(), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		_, _ = fmt.Fprintf(sum, "%s %x\n", strings.TrimPrefix(path, programDir()), sha256.Sum256(data)) // never fails
		return err
	})
	return fmt.Sprintf("%x", sum.Sum(nil)), err
}

// usesPrograms is whether this program uses the programs: unit tests, which are outside of e2e, do not.
func usesPrograms() bool {
	dir, err := os.Getwd()
	return !testing.Testing() || err != nil || strings.HasPrefix(dir, filepath.Join(Root(), "e2e"))
}

// readyPrograms sees to it that the programs are there, as they are in the source. The hash in the
// environment says that its setter has just built them.
func readyPrograms() error {
	if !usesPrograms() {
		return nil
	}
	want := os.Getenv(hashVariable)
	if want == "" {
		_, err := BuildPrograms()
		return err
	}
	hash, err := hashPrograms()
	if err != nil {
		return fmt.Errorf("the programs under test are missing: %w: run: make programs", err)
	}
	if hash != want {
		return fmt.Errorf("%s=%s, and build/programs has %s: run: make programs, and set what it prints", hashVariable, want, hash)
	}
	return nil
}

// Install copies programs under test, as they are released, into a directory, which it makes if it is missing;
// with allocnet-cni the program that it becomes.
func Install(dir string, names ...string) error { return install(programDir(), dir, names) }

// InstallRaced is Install with the race detector, if the environment asks for it.
func InstallRaced(dir string, names ...string) error {
	if os.Getenv(raceVariable) == "" {
		return Install(dir, names...)
	}
	return install(racedDir(), dir, names)
}

func install(from, to string, names []string) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	if slices.Contains(names, "allocnet-cni") {
		names = append(slices.Clone(names), "allocnet-cni-engine")
	}
	for _, name := range names {
		data, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, name), data, 0o755); err != nil {
			return err
		}
	}
	return nil
}
