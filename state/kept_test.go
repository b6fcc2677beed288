// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package state

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestKept: of a record that stays as it is the same is kept, once it is older than clocks differ. What is made of other things, too, is not, and
// nothing of what is gone, or of another store.
func TestKept(t *testing.T) {
	s, other := open(t), open(t)
	again, err := Open(s.dir) // as another call to an agent does
	must(t, err)
	locks := map[string]*Locked{}
	for _, id := range []string{"a", "b", "c"} {
		locks[id] = lock(t, s, id)
		must(t, locks[id].Begin(Allocation{ID: id, Mode: ModeSetup}, nil))
	}
	must(t, lock(t, other, "a").Begin(Allocation{ID: "a", Mode: ModeExtend}, nil))
	var k Kept[Mode]
	var made []string
	each := func(s *Store) (got []Mode, err error) {
		made = nil
		err = k.Each(t.Context(), s, func(r Record) (Mode, bool) {
			made = append(made, r.Allocation.ID)
			return r.Allocation.Mode, r.Allocation.ID != "c"
		}, func(m Mode) { got = append(got, m) })
		return got, err
	}
	require := func(what string, s *Store, want, wantMade []string) {
		t.Helper()
		got, err := each(s)
		var modes []string
		for _, m := range got {
			modes = append(modes, string(m))
		}
		if diff := cmp.Diff(want, modes); diff != "" || err != nil || !slices.Equal(made, wantMade) {
			t.Errorf("%s: made of %q, want %q; %v%s", what, made, wantMade, err, diff)
		}
	}
	all := []string{"setup", "setup", "setup"}
	synctest.Test(t, func(t *testing.T) { // whose clock is far behind
		require("new records", s, all, []string{"a", "b", "c"})
		require("again", s, all, []string{"a", "b", "c"})
		time.Sleep(time.Until(time.Now().AddDate(200, 0, 0)))
		require("old records", s, all, []string{"a", "b", "c"})
		require("once more", again, all, []string{"c"})
		must(t, locks["b"].Write(attachment("net1", "")))
		require("one changed", s, all, []string{"b", "c"})
		must(t, os.WriteFile(filepath.Join(s.allocationDir("b"), journalFile), newer(), 0o600))
		var unreadable *UnreadableError
		if got, err := each(s); len(got) != 2 || !errors.As(err, &unreadable) || unreadable.ID != "b" {
			t.Errorf("one is not readable: %v, %v", got, err)
		}
		must(t, os.RemoveAll(s.allocationDir("b")))
		require("one gone", s, all[:2], []string{"c"})
		require("another store", other, []string{"extend"}, []string{"a"})
		require("the first store", s, all[:2], []string{"a", "c"})
	})
	ctx, stop := context.WithCancelCause(t.Context())
	done := errors.New("done")
	stop(done)
	if err := k.Each(ctx, s, func(Record) (Mode, bool) { return "", true }, func(Mode) { t.Error("called") }); !errors.Is(err, done) {
		t.Errorf("ended: %v", err)
	}
}
