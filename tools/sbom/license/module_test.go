// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package license

import (
	"flag"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// root is the repository.
const root = "../../.."

const own = "github.com/allocnet/allocnet"

// standIns are modules of the repository that replace others.
var standIns = []string{"github.com/aws/aws-sdk-go", "github.com/hashicorp/go-discover", "github.com/hashicorp/go-getter"}

// lists are the arguments of `go list -deps` for what the project builds of a Go module
// of the repository, if they are not packages and tools.
var lists = map[string][][]string{
	".":                    {{"-test", "./..."}},
	"tools/cni-1.1.1":      {{"github.com/containernetworking/plugins/plugins/..."}},
	"tools/cni-1.5.1":      {{"github.com/containernetworking/plugins/plugins/..."}},
	"tools/coredns":        {{"."}},
	"tools/lint":           {{"-modfile", "../../build/lint/go.mod", "tool"}}, // of make lint,
	"tools/nomad/aws":      nil,
	"tools/nomad/discover": nil,
	"tools/nomad/getter":   nil,
	"tools/protogen":       {{"-test", "./..."}, {"tool"}},
	"tools/sbom":           {{"-test", "./..."}},
	"tools/site":           {{"-test", "./..."}},
}

// TestModules: each module of which a package is built, in any Go module of the
// repository, for the architectures of the releases, has a license file, and only of
// open-source licenses. Modules that `go list -m all` has as well, and of which nothing is
// built, are not downloaded.
func TestModules(t *testing.T) {
	// Go keeps a result only with this log of the files that a test reads. All of these are read by
	// `go list`, and outside of this Go module.
	if log := flag.Lookup("test.testlogfile"); log == nil || log.Value.String() != "" {
		t.Fatal("Go would keep the result while modules change: run with -count 1")
	}
	dirs := goModules(t)
	if len(dirs) < 6 {
		t.Fatalf("Go modules %v", dirs)
	}
	for _, dir := range dirs {
		name, err := filepath.Rel(root, dir)
		if err != nil {
			t.Fatal(err)
		}
		if testing.Short() && name == "tools/coredns" { // downloaded for tests that make test leaves out
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			patterns, ok := lists[name]
			if !ok {
				patterns = [][]string{{"tool"}}
			}
			requireOpen(t, dir, patterns)
		})
	}
}

// goModules returns the directories of the Go modules of the repository, wherever they are.
func goModules(t *testing.T) (dirs []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path == filepath.Join(root, "build"), entry.Name() == ".git":
			return skip(entry)
		case entry.Name() == "go.mod":
			dirs = append(dirs, filepath.Dir(path))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return dirs
}

// skip leaves a directory out; a worktree has a file of the name .git.
func skip(entry fs.DirEntry) error {
	if entry.IsDir() {
		return fs.SkipDir
	}
	return nil
}

func requireOpen(t *testing.T, dir string, patterns [][]string) {
	t.Helper()
	for _, environ := range [][]string{{"CGO_ENABLED=1"}, {"CGO_ENABLED=0", "GOARCH=amd64"}, {"CGO_ENABLED=0", "GOARCH=arm64"}} {
		for _, args := range patterns {
			modules, err := Modules(dir, environ, args...)
			if err != nil {
				t.Fatal(err)
			}
			if len(modules) < 2 {
				t.Errorf("%v lists the modules %v alone", args, slices.Collect(maps.Keys(modules)))
			}
			for _, m := range modules {
				if m.Path == own || strings.HasPrefix(m.Path, own+"/") || slices.Contains(standIns, m.Path) {
					continue // of this repository
				}
				if _, err := m.Licenses(); err != nil {
					t.Error(err)
				}
			}
		}
	}
}
