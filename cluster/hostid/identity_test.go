// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hostid

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/internal/files"
)

// TestMake: processes that start at a time agree on the random ID, and later ones have it.
func TestMake(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state", "ipam")
	if id, err := Read(dir); err != nil || id.Instance != "" || id.Born || id.Boot == "" {
		t.Errorf("before: %+v, %v", id, err)
	}
	ids := make([]Identity, 8)
	var group sync.WaitGroup
	for i := range ids {
		group.Go(func() {
			var err error
			if ids[i], err = Make(dir); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	later, err := Read(dir)
	for _, id := range append(ids, later) {
		if id != ids[0] || !ipam.IsInstance(id.Instance) || err != nil {
			t.Errorf("identities %+v, %v, want one of 32 hexadecimal digits", ids, err)
		}
	}
}

// TestBorn: an instance was made here and now, unless its file says something else.
func TestBorn(t *testing.T) {
	dir := t.TempDir()
	id, err := Make(dir)
	if err != nil || id.Born != (id.MachineID != "") {
		t.Fatalf("%+v, %v, want an instance that was made now", id, err)
	}
	for birth, want := range map[string]bool{
		id.Boot + "\n" + id.MachineID + "\n":   id.MachineID != "",
		"another boot\n" + id.MachineID + "\n": false,
		id.Boot + "\nanother machine\n":        false,
		id.Boot + "\n":                         false,
		"":                                     false,
		id.Boot + "\n" + id.MachineID + "\nmore\n": false,
	} {
		write(t, dir, id.Instance+"\n"+birth)
		if got, err := Read(dir); err != nil || got.Born != want || got.Instance != id.Instance {
			t.Errorf("born %q: %+v, %v, want %v", birth, got, err, want)
		}
	}
}

// TestDamaged: another ID in the place of a damaged one would leave the blocks of this host
// behind.
func TestDamaged(t *testing.T) {
	dir := t.TempDir()
	for _, text := range []string{"", "x", strings.Repeat("a", 31), strings.Repeat("A", 32), "\n" + strings.Repeat("a", 33)} {
		write(t, dir, text)
		for name, get := range map[string]func(string) (Identity, error){"Read": Read, "Make": Make} {
			if id, err := get(dir); err == nil || !strings.Contains(err.Error(), filepath.Join(dir, fileName)) || !strings.Contains(err.Error(), "restore the file") {
				t.Errorf("%s of %q: %+v, %v, want an error that names the file and what to do", name, text, id, err)
			}
		}
	}
}

// TestInstanceIsNoPipe: who this host is is not waited for.
func TestInstanceIsNoPipe(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mkfifo(filepath.Join(dir, fileName), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, get := range map[string]func(string) (Identity, error){"Read": Read, "Make": Make} {
		if id, err := get(dir); !errors.Is(err, files.ErrNotRegular) {
			t.Errorf("%s: %+v, %v", name, id, err)
		}
	}
}

func write(t *testing.T, dir, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, fileName), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestInstanceIsLocked: the lock of the directory, which another program may have, is not waited
// for without end.
func TestInstanceIsLocked(t *testing.T) {
	dir := t.TempDir()
	other, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := unix.Flock(int(other.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		if id, err := Make(dir); !errors.Is(err, ipam.ErrUnavailable) || errdefs.Of(err) != errdefs.Unavailable || !strings.Contains(err.Error(), dir) {
			t.Errorf("%+v, %v, want an error with the directory", id, err)
		}
	})
}
