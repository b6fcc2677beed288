// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/internal/fakecni"
	"github.com/allocnet/allocnet/selection"
	"github.com/allocnet/allocnet/state"
)

// TestDamageIsUnknown: an allocation with a damaged record is dead only when what
// can be read proves it. All else leaves it, and its record, as they are.
func TestDamageIsUnknown(t *testing.T) {
	boot, err := state.BootID()
	if err != nil {
		t.Fatal(err)
	}
	const exists, missing = ownNetns, "/nowhere"
	for name, test := range map[string]struct {
		netns, boot string
		lost        bool // the line of the allocation, not that of the attachment
		dead        bool
	}{
		"its namespace exists":                      {netns: exists, boot: boot},
		"its namespace is gone":                     {netns: missing, boot: boot, dead: true},
		"of an earlier boot":                        {netns: exists, boot: "earlier", dead: true},
		"the attachment tells of a namespace":       {netns: exists, boot: boot, lost: true},
		"the attachment tells of one that is gone":  {netns: missing, boot: boot, lost: true, dead: true},
		"nothing tells":                             {boot: boot, lost: true},
		"the attachment tells of an earlier boot":   {netns: exists, boot: "earlier", lost: true, dead: true},
		"a namespace that is known, and no boot ID": {netns: exists},
	} {
		t.Run(name, func(t *testing.T) {
			calls := filepath.Join(t.TempDir(), "calls")
			e := fakeEngine(t, func(c *Config) {
				c.Cleaner = cleanerFunc(func(_ context.Context, left []state.Leftover) []error { return make([]error, len(left)) })
			})
			a := state.Allocation{ID: "a", Mode: state.ModeSetup, Netns: test.netns, BootID: test.boot, Digest: "d"}
			damage(t, e, a, test.lost, mark(t, fakeList(t, "n", fakecni.Script{Log: calls}), a))
			if _, err := e.GC(t.Context(), GCRequest{}); err != nil {
				t.Fatal(err)
			}
			if alive := errors.Is(e.TearDownDead(t.Context(), "a"), ErrAlive); alive == test.dead {
				t.Errorf("not dead: %t, want %t", alive, !test.dead)
			}
			shown, err := e.Status(t.Context(), "a")
			if torn := errors.Is(err, state.ErrNotFound); torn != test.dead {
				t.Errorf("torn down: %t, want %t", torn, test.dead)
			}
			if err == nil && len(shown.Damaged) == 0 {
				t.Error("the damage does not show any more")
			}
			if _, err := os.Stat(calls); (err == nil) != test.dead {
				t.Errorf("a plugin was called: %t, want %t", err == nil, test.dead)
			}
			if test.dead {
				return
			}
			var refused *DamagedRecordError
			if _, err := e.Setup(t.Context(), Request{ID: "a", Networks: []selection.Element{{Name: "n"}}}); !errors.As(err, &refused) {
				t.Errorf("Setup: %v, want *DamagedRecordError", err)
			}
			if err := e.Teardown(t.Context(), "a"); err != nil { // which is asked for
				t.Error(err)
			}
		})
	}
}

// TestNamespaceOfUnknown: where damage has left nothing of the allocation as a whole, what is attached is removed, and it is
// not done before the namespace with its ID is gone, which may be its own.
func TestNamespaceOfUnknown(t *testing.T) {
	e := fakeEngine(t, func(c *Config) { c.NetnsDir = filepath.Dir(ownNetns) })
	a := state.Allocation{ID: filepath.Base(ownNetns), Mode: state.ModeSetup, Netns: ownNetns, NetnsOwned: true, Digest: "d"}
	calls := filepath.Join(t.TempDir(), "calls")
	damage(t, e, a, true, fakeList(t, "n", fakecni.Script{Log: calls}))
	for range 2 {
		if err := e.Teardown(t.Context(), a.ID); err == nil || !strings.Contains(err.Error(), ownNetns+" is") {
			t.Errorf("torn down: %v, want an error that names the namespace", err)
		}
	}
	if shown, err := e.Status(t.Context(), a.ID); err != nil {
		t.Fatal(err)
	} else if len(shown.Attachments) > 0 {
		t.Errorf("it has %+v, want no attachment", shown.Attachments)
	}
	if _, err := os.Stat(calls); err != nil {
		t.Error("no plugin was called")
	}
	e.env.Config.NetnsDir = t.TempDir()
	if err := e.Teardown(t.Context(), a.ID); err != nil {
		t.Errorf("torn down without its namespace: %v", err)
	}
	if _, err := e.Status(t.Context(), a.ID); !errors.Is(err, state.ErrNotFound) {
		t.Errorf("status: %v, want %v", err, state.ErrNotFound)
	}
}

// TestLostIsNotDone: where damage has left no attachment, no call reports success and none removes
// the record, also if the namespace is gone. To forget it keeps the damaged file.
func TestLostIsNotDone(t *testing.T) {
	boot, err := state.BootID()
	if err != nil {
		t.Fatal(err)
	}
	for name, a := range map[string]state.Allocation{
		"its namespace exists":  {Netns: ownNetns, BootID: boot},
		"its namespace is gone": {Netns: "/nowhere", BootID: boot},
		"of an earlier boot":    {Netns: ownNetns, BootID: "earlier"},
	} {
		t.Run(name, func(t *testing.T) {
			e := fakeEngine(t, nil)
			a.ID, a.Mode, a.Digest = "a", state.ModeSetup, "d"
			damage(t, e, a, false, nil)
			path := filepath.Join(e.env.Config.StateDir, "allocations", "a", "journal")
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, bytes.ReplaceAll(data, []byte(`"batch"`), []byte(`"bunch"`)), 0o600); err != nil {
				t.Fatal(err)
			}
			for call, err := range map[string]error{
				"Teardown":     e.Teardown(t.Context(), "a"),
				"TearDownDead": e.TearDownDead(t.Context(), "a"),
				"Release":      e.Release(t.Context(), "a", "web"),
				"Detach":       e.Detach(t.Context(), "a", "eth0"),
				"Setup":        attachAgain(t, e),
			} {
				var damaged *DamagedRecordError
				if !errors.As(err, &damaged) || !damaged.Lost || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "allocnet cleanup a --forget") {
					t.Errorf("%s: %v, want what is wrong with which file, and what to do", call, err)
				}
			}
			if _, err := e.GC(t.Context(), GCRequest{}); (err != nil) != (name != "its namespace exists") {
				t.Errorf("GC: %v", err)
			}
			if pending, err := e.env.Store.Pending(); err != nil || len(pending) > 0 {
				t.Errorf("without an end are retried: %v, %v", pending, err)
			}
			if shown, err := e.Status(t.Context(), "a"); err != nil || len(shown.Damaged) == 0 {
				t.Fatalf("on record is %+v, %v, want the damage", shown, err)
			}
			err = e.Forget(t.Context(), "a")
			if name == "its namespace exists" {
				if _, kept := e.Status(t.Context(), "a"); !errors.Is(err, ErrAlive) || kept != nil {
					t.Errorf("Forget: %v, want ErrAlive, and the record: %v", err, kept)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if kept, _ := filepath.Glob(filepath.Join(e.env.Config.StateDir, "damaged", "a", "*")); len(kept) != 1 {
				t.Errorf("kept are %v, want the damaged file", kept)
			}
			if _, err := e.Status(t.Context(), "a"); !errors.Is(err, state.ErrNotFound) {
				t.Errorf("after Forget: %v", err)
			}
		})
	}
}

// TestLostIsNotRetried: a teardown that failed, and whose record was then damaged so that no attachment is left, is not due
// for ever: each call of allocnet would start a process that fails.
func TestLostIsNotRetried(t *testing.T) {
	boot, err := state.BootID()
	if err != nil {
		t.Fatal(err)
	}
	e := fakeEngine(t, nil)
	damage(t, e, state.Allocation{ID: "a", Mode: state.ModeSetup, Digest: "d", Netns: "/nowhere", BootID: boot}, false, nil)
	l, err := e.env.Store.Lock(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.AddPending(); err != nil {
		t.Fatal(err)
	}
	l.Unlock()
	path := filepath.Join(e.env.Config.StateDir, "allocations", "a", "journal")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, bytes.ReplaceAll(data, []byte(`"batch"`), []byte(`"bunch"`)), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := e.RetryPending(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if pending, err := e.env.Store.Pending(); err != nil || len(pending) > 0 {
		t.Errorf("still due: %v, %v", pending, err)
	}
	if e.RetryDue() {
		t.Error("a retry is due after three")
	}
}

func attachAgain(t *testing.T, e *Engine) error {
	_, err := e.Setup(t.Context(), Request{ID: "a", Networks: []selection.Element{{Name: "n"}}})
	return err
}

// damage records an allocation with one attachment, and spoils one line.
func damage(t *testing.T, e *Engine, a state.Allocation, allocation bool, list []byte) {
	t.Helper()
	l, err := e.env.Store.Lock(t.Context(), a.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Unlock()
	first := state.Attachment{Network: "n", Interface: "eth0", Batch: onrecord.SetupBatch, ContainerID: a.ID, Phase: state.Attached, ConfList: list}
	second := state.Attachment{Network: "n", Interface: "net1", Batch: onrecord.SetupBatch, ContainerID: a.ID, Index: 1, Phase: state.Attached, ConfList: list}
	if err := l.Begin(a, []state.Attachment{first, second}); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(e.env.Config.StateDir, "allocations", a.ID, "journal")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(data, []byte("\n"))
	n := 2
	if allocation {
		n = 0
	}
	lines[n] = append([]byte("spoiled "), lines[n]...)
	if err := os.WriteFile(path, bytes.Join(lines, nil), 0o600); err != nil {
		t.Fatal(err)
	}
}

// mark gives a conflist the marker of an attachment of the allocation.
func mark(t *testing.T, list []byte, a state.Allocation) []byte {
	t.Helper()
	var conf map[string]any
	if err := json.Unmarshal(list, &conf); err != nil {
		t.Fatal(err)
	}
	var err error
	if conf["allocnet"], err = onrecord.NewMarker(a, state.Attachment{Batch: onrecord.SetupBatch}); err != nil {
		t.Fatal(err)
	}
	marked, err := json.Marshal(conf)
	if err != nil {
		t.Fatal(err)
	}
	return marked
}

// TestUnreadableCache: without a record and with a cache that cannot be read it is not known what there is: no call reports success.
func TestUnreadableCache(t *testing.T) {
	e := fakeEngine(t, nil)
	if err := os.WriteFile(filepath.Join(e.env.Config.CacheDir, "results"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for call, err := range map[string]error{
		"Teardown": e.Teardown(t.Context(), "a"),
		"Release":  e.Release(t.Context(), "a", "web"),
		"Setup":    attachAgain(t, e),
	} {
		if err == nil || !strings.Contains(err.Error(), "read libcni's cache: ") {
			t.Errorf("%s: %v", call, err)
		}
	}
}
