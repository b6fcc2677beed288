// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

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
	requireFormer := func(want string) {
		t.Helper()
		if former, err := i.Former(); err != nil || string(former) != want {
			t.Errorf("the host may have %q, %v, want %q", former, err, want)
		}
	}
	requireFormer("")
	must(t, i.SetLearned("p", []byte("[3]"), read))
	requireFormer("[1]")
	must(t, i.SetLearned("p", []byte("[1,4]"), read)) // the host has not ended to learn the one before
	requireFormer("[1,3]")
	must(t, i.SetLearned("p", nil, read))
	must(t, i.SetLearned("p", nil, read))
	requireFormer("[1,3,4]")
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

// TestIsolationTextSum: the sum of a text is on record while rules are in force, also if the last of them go while it is recorded.
func TestIsolationTextSum(t *testing.T) {
	s := open(t)
	i := s.Isolation()
	record := func(want string) {
		t.Helper()
		must(t, i.SetTextSum("of a file", "sum"))
		if got := i.TextSum("of a file"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	record("")
	must(t, i.SetInForce([]byte(`{}`), nil))
	record("sum")
	if got := i.TextSum("of another file"); got != "" {
		t.Errorf("another file has %q", got)
	}
	must(t, i.SetInForce(nil, nil))
	if left, err := os.ReadDir(i.dir); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	record("")
	if left, err := os.ReadDir(i.dir); err != nil || len(left) != 0 {
		t.Errorf("left by one that has begun before: %v, %v", left, err)
	}
}

// TestTextSumAtOnce: those who record the sum of a text at the same time do not fail, and read one that was recorded for the identity, or none.
func TestTextSumAtOnce(t *testing.T) {
	i := open(t).Isolation()
	must(t, i.SetInForce([]byte(`{}`), nil))
	var group errgroup.Group
	for n := range 8 {
		group.Go(func() (err error) {
			identity, sum := fmt.Sprint("identity ", n%2), fmt.Sprint("sum ", n%2)
			for range 200 {
				err = errors.Join(err, i.SetTextSum(identity, sum))
				if read := i.TextSum(identity); read != sum && read != "" {
					err = errors.Join(err, fmt.Errorf("for %s there is %q", identity, read))
				}
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
}

// TestIsolationGone: once no rules are in force, no sum of a text is left, whatever change the process that ends them was killed at: none would remove it.
func TestIsolationGone(t *testing.T) {
	for survived := 0; ; survived++ {
		s := open(t)
		i := s.Isolation()
		must(t, i.SetInForce([]byte(`{}`), nil))
		must(t, i.SetTextSum("of a file", "sum"))
		left, killed := survived, false
		s.Intercept(func(_, _ string, change func() error) error {
			if left--; left < 0 {
				killed = true
				return errors.New("killed")
			}
			return change()
		})
		_ = s.Isolation().SetInForce(nil, nil)
		_, rules := os.Lstat(i.file())
		if _, text := os.Lstat(i.textFile()); text == nil && rules != nil {
			t.Errorf("killed after %d changes: the text is left without rules", survived)
		}
		if !killed {
			return
		}
	}
}
