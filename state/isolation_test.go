// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
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
	must(t, i.SetInForce(nil))
	must(t, i.SetInForce([]byte(`{"a":1}`)))
	requireInForce(`{"a":1}`)
	path := filepath.Join(s.dir, isolationDir, "in-force")
	written, err := os.ReadFile(path)
	must(t, err)
	for _, other := range []string{"", "of another boot\n{}", string(written[:len(written)-1])} {
		must(t, os.WriteFile(path, []byte(other), 0o600))
		requireInForce("")
	}
	must(t, os.WriteFile(path, written, 0o600))
	must(t, i.SetInForce(nil))
	requireInForce("")
}

// TestLearned: what is learned of other hosts is on record by pool, with when it was read, until it is removed; what is torn is nothing. While it changes, the host may have
// something else, also after a kill.
func TestLearned(t *testing.T) {
	s := open(t)
	i := s.Isolation()
	read := time.Now().Add(-time.Hour).Truncate(time.Second)
	requireLearned := func(want string) {
		t.Helper()
		all, err := i.Learned()
		var got []string
		for _, l := range all {
			got = append(got, fmt.Sprintf("%s %s %t", l.Pool, l.Content, l.Read.Equal(read)))
		}
		if text := strings.Join(got, ", "); err != nil || text != want {
			t.Errorf("learned is %q, %v, want %q", text, err, want)
		}
	}
	requireLearned("")
	must(t, i.SetLearned("p", []byte("[1]"), read))
	must(t, i.SetLearned("q-2", []byte("[2]"), read.Add(time.Minute)))
	requireLearned("p [1] true, q-2 [2] false")
	must(t, i.ConfirmLearned("q-2", read))
	requireLearned("p [1] true, q-2 [2] true")
	if !i.IsLearning() {
		t.Error("the host is taken to have what it was not told")
	}
	must(t, i.EndLearning())
	must(t, i.EndLearning())
	if i.IsLearning() {
		t.Error("the host is taken not to have what it was told")
	}
	must(t, os.WriteFile(filepath.Join(s.dir, isolationDir, "learned-q-2"), []byte("[2"), 0o600))
	requireLearned("p [1] true")
	must(t, i.SetLearned("p", nil, read))
	must(t, i.SetLearned("p", nil, read))
	requireLearned("")
	if !i.IsLearning() {
		t.Error("the host is taken to have what is not on record any more")
	}
}

// TestVersion: the version of all records is another one after each change, and the same without one.
func TestVersion(t *testing.T) {
	s := open(t)
	seen := map[string]bool{}
	requireNew := func() {
		t.Helper()
		version, err := s.Version()
		if again, _ := s.Version(); err != nil || again != version || seen[version] {
			t.Errorf("the version is %q and %q, %v, seen: %t", version, again, err, seen[version])
		}
		seen[version] = true
	}
	requireNew()
	for _, id := range []string{"a", "b"} {
		lock, err := s.Lock(t.Context(), id)
		must(t, err)
		must(t, lock.Begin(Allocation{ID: id, Mode: ModeSetup}, nil))
		requireNew()
		lock.Unlock()
	}
}
