// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/state"
)

// TestSetupAfterKilledTeardown: an allocation of which a killed Teardown has removed a
// part is not set up. Setup makes it anew, with all networks.
func TestSetupAfterKilledTeardown(t *testing.T) {
	i := install(t)
	k := killable{find: setup(inLineRequest), call: teardown("runtime")}
	killedBeforeEach(t, i, k, func(w *world, when string) { wantBoth(t, w, when) })
}

// TestKilledRecoveryOfSetup: Setup was killed while it recorded that all is attached, and
// so was the GC that removed its attachments. Setup makes them anew, all of them.
func TestKilledRecoveryOfSetup(t *testing.T) {
	i := install(t)
	k := killable{find: inTurn(setup(inLineRequest), interrupted("runtime", "net2")), call: collect}
	killedBeforeEach(t, i, k, func(w *world, when string) { wantBoth(t, w, when) })
}

// TestKilledRollbackOfExtend: the same of an Extend. The next GC removes all that is left
// of the interrupted call.
func TestKilledRollbackOfExtend(t *testing.T) {
	i := install(t)
	request := inLineRequest
	request.ID = "task"
	k := killable{find: inTurn(extend(request), interrupted("task", "net2")), call: collect}
	killedBeforeEach(t, i, k, func(w *world, when string) {
		if err := collect(w); err != nil {
			t.Error(err)
		}
		if got := w.namespaces.interfaces(runtimeNetns); !slices.Equal(got, []string{"lo"}) {
			t.Errorf("%s: after GC the namespace has %v of the interrupted call", when, got)
		}
	})
}

// TestSetupAfterInterruptedExtend: a further Extend of an allocation was killed. The same Setup again removes what that call
// has attached, and returns the rest as it is.
func TestSetupAfterInterruptedExtend(t *testing.T) {
	w := killable{find: inTurn(ownAndFurtherLine, interrupted("own", "further2"))}.world(t, install(t))
	a, err := w.Setup(w.ctx, ownInLine)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, attachment := range a.Attachments {
		got = append(got, attachment.Interface)
	}
	path := filepath.Join(w.config.NetnsDir, "own")
	if inside := w.namespaces.interfaces(path); !slices.Equal(inside, got) || slices.Contains(got, "further1") || len(got) < 2 {
		t.Errorf("Setup returns %v, and the namespace has %v; want those of Setup", got, inside)
	}
}

// TestFullDiskRecordsThatDelBegins: without room for the attachments anew, the record says
// before the first DEL that all are being removed, and says so once.
func TestFullDiskRecordsThatDelBegins(t *testing.T) {
	m := extended(t)
	m.env.Store.Intercept(func(op, path string, change func() error) error {
		if op == "allocate" {
			return &fs.PathError{Op: op, Path: path, Err: unix.ENOSPC}
		}
		return change()
	})
	journal := filepath.Join(m.env.Config.StateDir, "allocations", "w1", "journal")
	var sizes []int64
	m.exec.answer = func(context.Context, fakeCall) (bool, []byte, error) {
		info, err := os.Stat(journal)
		if err != nil {
			t.Error(err)
			return true, nil, err
		}
		sizes = append(sizes, info.Size())
		record, err := m.env.Store.Read("w1")
		if err != nil || len(record.Attachments) != 3 {
			t.Errorf("recorded is %+v, %v", record, err)
		}
		for _, a := range record.Attachments {
			if a.Phase != state.Deleting {
				t.Errorf("%s is in phase %s when DEL begins", a.Interface, a.Phase)
			}
		}
		return true, nil, errStuck
	}
	for range 2 {
		if err := m.Teardown(t.Context(), "w1"); !errors.Is(err, errStuck) {
			t.Error(err)
		}
	}
	if len(sizes) == 0 || slices.Min(sizes) != slices.Max(sizes) {
		t.Errorf("the journal has %d bytes at the calls of DEL", sizes)
	}
	m.exec.answer = nil
	if err := m.Teardown(t.Context(), "w1"); err != nil {
		t.Error(err)
	}
}

// killedBeforeEach kills the call before each of its effects, and looks at what is left.
func killedBeforeEach(t *testing.T, i installation, k killable, look func(w *world, when string)) {
	t.Helper()
	w := k.world(t, i)
	found := w.keep(t)
	for at, effect := range k.effects(t, i) {
		found(t)
		w.killAt(at, false)
		_ = k.call(w) // a dead process returns nothing
		w.bury()
		look(w, fmt.Sprintf("killed before %d, %q", at, effect))
	}
}

// wantBoth: Setup succeeds, and what it returns has both networks.
func wantBoth(t *testing.T, w *world, when string) {
	t.Helper()
	a, err := w.Setup(t.Context(), inLineRequest)
	if err != nil {
		t.Errorf("%s: %v", when, err)
		return
	}
	if got := w.namespaces.interfaces(runtimeNetns); len(a.Attachments) != 2 || !slices.Equal(got, []string{"lo", "net1", "net2"}) {
		t.Errorf("%s: Setup succeeds with %d of 2 attachments, the namespace has %v", when, len(a.Attachments), got)
	}
}

// interrupted makes the record of an allocation that of a process of an earlier version
// that was killed before it recorded that an interface is attached: it had recorded the
// others.
func interrupted(id, iface string) func(*world) error {
	return rewritten(id, func(a *state.Attachment) {
		if a.Interface == iface {
			a.Phase, a.Status = state.Adding, nil
		}
	})
}

// rewritten changes the recorded attachments of an allocation.
func rewritten(id string, edit func(*state.Attachment)) func(*world) error {
	return func(w *world) error {
		lock, err := w.env.Store.Lock(w.ctx, id)
		if err != nil {
			return err
		}
		defer lock.Unlock()
		record, err := lock.Load()
		if err != nil {
			return err
		}
		for n := range record.Attachments {
			edit(&record.Attachments[n])
		}
		return lock.Write(record.Attachments...)
	}
}
