// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containernetworking/cni/libcni"

	"github.com/allocnet/allocnet/internal/files"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// supportsIn tells whether a ptp network with the IPAM configuration is executed in process.
func supportsIn(t *testing.T, ipam string, dirs []string) error {
	t.Helper()
	list, err := libcni.NetworkConfFromBytes([]byte(`{"cniVersion": "1.0.0", "name": "n", "plugins": [{"type": "ptp", "ipam": ` + ipam + `}]}`))
	if err != nil {
		t.Fatal(err)
	}
	return Supports(list, dirs)
}

// TestUnknownKeysOfIPAM: a key that the reference plugin does not have is not executed in process,
// wherever it is. Those of routes are all that it has.
func TestUnknownKeysOfIPAM(t *testing.T) {
	const route = `"routes": [{"dst": "::/0"}, {"dst": "0.0.0.0/0", "gw": "10.0.0.1", "mtu": 1400, "advmss": 1300, "priority": 5, "table": 7, "scope": 0, "KEY": 1}]`
	for _, ipam := range []string{
		`{"type": "static", ` + route + `}`,
		`{"type": "host-local", "subnet": "10.0.0.0/24", ` + route + `}`,
		`{"type": "host-local", "ranges": [[{"subnet": "10.0.0.0/24", "KEY": 1}]]}`,
		`{"type": "static", "addresses": [{"address": "10.0.0.2/24", "KEY": 1}]}`,
	} {
		if err := supportsIn(t, strings.ReplaceAll(ipam, `, "KEY": 1`, ""), nil); err != nil {
			t.Errorf("%s without KEY is not executed in process: %v", ipam, err)
		}
		if err := supportsIn(t, ipam, nil); err == nil || !strings.Contains(err.Error(), `"KEY"`) {
			t.Errorf("%s: got the error %v, want one that names KEY", ipam, err)
		}
	}
}

// TestOtherPrograms: a plugin directory with another program of that name, even one in Go, has the
// network executed by plugins. What is no file is no plugin.
func TestOtherPrograms(t *testing.T) {
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		make func(path string) error
		want bool
	}{
		"nothing":      {func(string) error { return nil }, true},
		"a directory":  {func(path string) error { return os.Mkdir(path, 0o700) }, true},
		"a script":     {func(path string) error { return os.WriteFile(path, []byte("#!/bin/sh\n"), 0o700) }, false},
		"a Go program": {func(path string) error { return os.Symlink(own, path) }, false},
	} {
		for _, plugin := range []string{"ptp", "static"} {
			dir := t.TempDir()
			if err := test.make(filepath.Join(dir, plugin)); err != nil {
				t.Fatal(err)
			}
			if err := supportsIn(t, `{"type": "static"}`, []string{"/missing", dir}); (err == nil) != test.want {
				t.Errorf("%s is %s: got the error %v, want none: %t", plugin, name, err, test.want)
			}
		}
	}
}

// TestProgramsAreReadOnce: a program is read again when there is another one at its path, and each time while it is so young that a
// change might not show.
func TestProgramsAreReadOnce(t *testing.T) {
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "ptp")
	for _, target := range []string{path, path + ".new"} { // both are young
		data, err := os.ReadFile(own)
		if err == nil {
			err = os.WriteFile(target, data, 0o700)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	read := func() string {
		built, err := packageOf(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, kept := programs.Load(""); kept {
			t.Error("a young one is kept")
		}
		return built
	}
	first := read()
	sandbox.Eventually(t, "it is not young any more", func() bool { return files.Identity(path) != "" }, func() string { return path })
	read()
	if _, kept := programs.Load(files.Identity(path)); !kept {
		t.Error("it is not kept")
	}
	programs.Store(files.Identity(path), "kept")
	if again := read(); again != "kept" {
		t.Errorf("it was read again: %s", again)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	if other := read(); other != first {
		t.Errorf("another program is %s, want %s", other, first)
	}
}

// TestReferencePlugins are those that are built from the reference module, under their own name.
func TestReferencePlugins(t *testing.T) {
	for path, want := range map[string]bool{
		"github.com/containernetworking/plugins/plugins/main/ptp":        true,
		"github.com/containernetworking/plugins/plugins/meta/ptp":        true,
		"github.com/containernetworking/plugins/plugins/main/bridge":     false,
		"github.com/containernetworking/plugins/plugins/main/other/ptp":  false,
		"example.com/containernetworking/plugins/plugins/main/ptp":       false,
		"github.com/containernetworking/plugins/plugins/main/ptp/v2/ptp": false,
	} {
		if isReference(path, "ptp") != want {
			t.Errorf("%s is the reference plugin: %t, want %t", path, !want, want)
		}
	}
}
