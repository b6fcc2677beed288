// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/resolvconf"
	"github.com/allocnet/allocnet/state"
)

// TestResolvConf: the file of a dead allocation is removed, also without a record. Those of
// living ones and of others stay.
func TestResolvConf(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"dead", "lives", "recorded"} {
		if err := (resolvconf.File{Dir: dir, Name: name}).Write(resolvconf.Config{}); err != nil {
			t.Fatal(err)
		}
	}
	foreign := filepath.Join(dir, "foreign", "resolv.conf")
	if err := os.MkdirAll(filepath.Dir(foreign), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(foreign, []byte("nameserver 192.0.2.1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	found, err := scanResolvConf(dir)
	if err != nil {
		t.Fatal(err)
	}
	records := recordSet{allocations: map[string]recordedAllocation{"recorded": {}}}
	decisions, _, err := plan(&found, records, func(id string) string {
		if id == "lives" {
			return "it runs"
		}
		return ""
	}, "")
	if err != nil {
		t.Fatal(err)
	}
	var leaked []Object
	for _, d := range decisions {
		if d.Leaked {
			leaked = append(leaked, d.Object)
		}
	}
	if failures := found.remove(t.Context(), leaked); len(failures) > 0 {
		t.Error(failures)
	}
	var left []string
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		left = append(left, entry.Name())
	}
	if want := []string{"foreign", "lives", "recorded"}; !slices.Equal(left, want) {
		t.Errorf("left are %q, want %q", left, want)
	}
}

// TestCleanerKeepsResolvConf: the file of a namespace goes with the namespace, which forced cleanup leaves to the engine.
func TestCleanerKeepsResolvConf(t *testing.T) {
	f := resolvconf.File{Dir: t.TempDir(), Name: "a1"}
	if err := f.Write(resolvconf.Config{}); err != nil {
		t.Fatal(err)
	}
	h := newFakeSystem().host(catalogue.within(t.TempDir()))
	h.resolvConfDir = f.Dir
	c := Cleaner{CacheDir: t.TempDir(), host: h}
	if errs := c.Clean(t.Context(), []state.Leftover{leftover(`{"type": "bridge"}`)}); errs[0] != nil || !exists(f.Path()) {
		t.Errorf("%v, the file is there: %t", errs[0], exists(f.Path()))
	}
}

// TestResolvConfStays: what cannot be removed is an error.
func TestResolvConfStays(t *testing.T) {
	f := resolvconf.File{Dir: t.TempDir(), Name: strings.Repeat("a", 256)} // longer than a name may be
	if err := (Object{resolvConf: &f}).removeFile(); err == nil {
		t.Error("no error")
	}
}
