// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/allocnet/allocnet/internal/files"
)

// TestIsolationInForce: the rules in force are those of this boot, until nothing is isolated any more; what is torn, or of an earlier boot,
// is none.
func TestIsolationInForce(t *testing.T) {
	s := open(t)
	i := s.Isolation()
	requireInForce := func(want string) {
		t.Helper()
		if got, err := i.InForce(); err != nil || string(got) != want || (got == nil) != (want == "") {
			t.Errorf("in force is %q, %v, want %q", got, err, want)
		}
	}
	requireInForce("")
	must(t, i.SetInForce(nil, nil))
	must(t, i.SetInForce([]byte(`{"a":1}`), []byte("p")))
	requireInForce(`{"a":1}`)
	path := filepath.Join(s.dir, isolationDir, "in-force")
	written, err := os.ReadFile(path)
	must(t, err)
	for _, other := range []string{"", "of another boot\n{}", string(written[:len(written)-1])} {
		must(t, os.WriteFile(path, []byte(other), 0o600))
		requireInForce("")
	}
	must(t, os.WriteFile(path, written, 0o600))
	must(t, i.SetInForce(nil, nil))
	requireInForce("")
}

// TestIsolationPrepared: what was recorded with the rules in force is that of these alone: not if another version of allocnet, which does not know of
// it, records others or removes them, nor in another boot, nor after a kill between the two.
func TestIsolationPrepared(t *testing.T) {
	s := open(t)
	i := s.Isolation()
	path := func(name string) string { return filepath.Join(s.dir, isolationDir, name) }
	requirePrepared := func(what, want string) {
		t.Helper()
		if got, err := i.Prepared(); err != nil || string(got) != want {
			t.Errorf("%s: prepared is %q, %v, want %q", what, got, err, want)
		}
	}
	record := func() {
		t.Helper()
		must(t, i.SetInForce([]byte(`{"a":1}`), []byte("prepared\nfor it")))
		requirePrepared("recorded", "prepared\nfor it")
	}
	requirePrepared("nothing", "")
	record()
	written, err := os.ReadFile(path("in-force"))
	must(t, err)
	must(t, files.Replace(path("in-force"), written, files.Options{}))
	requirePrepared("replaced by another version", "")
	record()
	must(t, os.Remove(path("in-force")))
	requirePrepared("removed by another version", "")
	record()
	prepared, err := os.ReadFile(path("prepared"))
	must(t, err)
	must(t, os.WriteFile(path("prepared"), append([]byte("another boot"), prepared...), 0o600))
	requirePrepared("of another boot", "")
	record()
	killed := errors.New("killed")
	i.disk = func(op, path string, change func() error) error {
		if op == "write" && filepath.Base(path) == "in-force" {
			return killed
		}
		return change()
	}
	if err := i.SetInForce([]byte(`{"a":2}`), []byte("of another")); !errors.Is(err, killed) {
		t.Error(err)
	}
	requirePrepared("killed", "")
	i.disk = makeChange
	record()
	must(t, i.SetInForce(nil, nil))
	requirePrepared("removed", "")
}
