// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/hook/internal/remove"
	"github.com/allocnet/allocnet/internal/fakecni"
	"github.com/allocnet/allocnet/internal/hostns"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/roottest"
	"github.com/allocnet/allocnet/state"
)

// earlierBoot puts an allocation of an earlier boot on record.
func earlierBoot(t *testing.T, e *Engine, id string, conflist json.RawMessage) {
	t.Helper()
	a := state.Allocation{ID: id, Mode: state.ModeSetup, Netns: filepath.Join(e.env.Config.NetnsDir, id), NetnsOwned: true, BootID: "the boot before", Digest: "x"}
	recordOf(t, e, a, conflist)
}

// recordOf puts an allocation with one attachment on record.
func recordOf(t *testing.T, e *Engine, a state.Allocation, conflist json.RawMessage) {
	t.Helper()
	lock, err := e.env.Store.Lock(t.Context(), a.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Unlock()
	attachment := state.Attachment{Network: "n", Interface: "eth0", Batch: onrecord.SetupBatch, ContainerID: a.ID, Phase: state.Attached, ConfList: conflist}
	if err := lock.Begin(a, []state.Attachment{attachment}); err != nil {
		t.Fatal(err)
	}
}

func recorded(t *testing.T, e *Engine) []string {
	t.Helper()
	ids, err := e.env.Store.IDs()
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

// TestEarlierBoot: what the cleaner covers is removed in batches, without a
// plugin; the rest is left to a retry, and what is of this boot stays.
func TestEarlierBoot(t *testing.T) {
	var batches []int
	calls := filepath.Join(t.TempDir(), "calls")
	e := fakeEngine(t, func(c *Config) {
		c.Cleaner = cleanerFunc(func(_ context.Context, left []state.Leftover) []error {
			batches = append(batches, len(left))
			return make([]error, len(left))
		})
	})
	script := fakecni.Script{Log: calls}
	for i := range 250 + 50 {
		earlierBoot(t, e, fmt.Sprintf("dead-%03d", i), fakeList(t, "n", script))
	}
	earlierBoot(t, e, "x-unknown", json.RawMessage(`{"cniVersion": "1.0.0", "name": "n", "plugins": [{"type": "unknown"}]}`))
	record(t, e, "y-alive", state.Attachment{Network: "n", Interface: "eth0", Batch: onrecord.SetupBatch, ContainerID: "y-alive", Phase: state.Attached, ConfList: fakeList(t, "n", script)})
	if err := remove.CleanBoot(t.Context(), e.env); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(batches); got != fmt.Sprint([]int{250, 50}) {
		t.Errorf("cleaned up in batches of %s", got)
	}
	if got := fmt.Sprint(recorded(t, e)); got != "[x-unknown y-alive]" {
		t.Errorf("on record are %s", got)
	}
	if _, err := os.Stat(calls); err == nil {
		t.Error("a plugin was called")
	}
	if pending, err := e.env.Store.Pending(); err != nil || fmt.Sprint(pending) != "[x-unknown]" || !e.RetryDue() {
		t.Errorf("pending are %v, %v", pending, err)
	}
}

// TestNextBoot: what was cleaned up in an earlier boot says nothing of this one. What another call has locked is left to it,
// and of a damaged record is not known what it left.
func TestNextBoot(t *testing.T) {
	e := fakeEngine(t, func(c *Config) {
		c.Cleaner = cleanerFunc(func(_ context.Context, left []state.Leftover) []error { return make([]error, len(left)) })
	})
	if err := e.env.Store.SetCleanedBoot("the boot before"); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"damaged", "dead", "a-locked"} {
		earlierBoot(t, e, id, fakeList(t, "n", fakecni.Script{}))
	}
	journal, err := os.OpenFile(filepath.Join(e.env.Config.StateDir, "allocations", "damaged", "journal"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := journal.WriteString("damage\n"); err != nil {
		t.Fatal(err)
	}
	_ = journal.Close() // written
	lock, err := e.env.Store.Lock(t.Context(), "a-locked")
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Unlock()
	if err := remove.CleanBoot(t.Context(), e.env); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(recorded(t, e)); got != "[a-locked damaged]" {
		t.Errorf("on record are %s", got)
	}
}

// TestUnknownBoot: what does not say its boot may be of this one.
func TestUnknownBoot(t *testing.T) {
	e := fakeEngine(t, func(c *Config) {
		c.Cleaner = cleanerFunc(func(_ context.Context, left []state.Leftover) []error { return make([]error, len(left)) })
	})
	recordOf(t, e, state.Allocation{ID: "a", Mode: state.ModeSetup, Netns: filepath.Join(e.env.Config.NetnsDir, "a"), Digest: "x"}, fakeList(t, "n", fakecni.Script{}))
	if err := remove.CleanBoot(t.Context(), e.env); err != nil || len(recorded(t, e)) != 1 {
		t.Errorf("%v, on record are %v", err, recorded(t, e))
	}
	if a, err := e.Status(t.Context(), "a"); err != nil || a.Attachments[0].Phase != state.Attached {
		t.Errorf("recorded %+v, %v", a, err)
	}
}

// TestRootFilesOfAnEarlierBoot: the file at which a namespace was pinned goes with the record, unless the caller made it.
func TestRootFilesOfAnEarlierBoot(t *testing.T) {
	roottest.Require(t)
	for _, owned := range []bool{true, false} {
		dir := t.TempDir()
		e := fakeEngine(t, func(c *Config) {
			c.NetnsDir = dir
			c.Cleaner = cleanerFunc(func(_ context.Context, left []state.Leftover) []error { return make([]error, len(left)) })
		})
		path := filepath.Join(dir, "a")
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		recordOf(t, e, state.Allocation{ID: "a", Mode: state.ModeSetup, Netns: path, NetnsOwned: owned, BootID: "the boot before", Digest: "x"}, fakeList(t, "n", fakecni.Script{}))
		if err := remove.CleanBoot(t.Context(), e.env); err != nil || len(recorded(t, e)) != 0 {
			t.Errorf("%v, on record are %v", err, recorded(t, e))
		}
		if _, err := os.Stat(path); (err == nil) == owned {
			t.Errorf("owned is %t, and of the file is said: %v", owned, err)
		}
	}
}

// TestEarlierBootInterrupted: a process that is ended on the way leaves the
// records to the next.
func TestEarlierBootInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	e := fakeEngine(t, func(c *Config) {
		c.Cleaner = cleanerFunc(func(ctx context.Context, left []state.Leftover) []error {
			cancel()
			return make([]error, len(left))
		})
	})
	earlierBoot(t, e, "dead", fakeList(t, "n", fakecni.Script{}))
	if err := remove.CleanBoot(ctx, e.env); !errors.Is(err, context.Canceled) || len(recorded(t, e)) != 1 || !e.RetryDue() {
		t.Errorf("%v, on record are %v", err, recorded(t, e))
	}
	if err := e.RetryPending(t.Context()); err != nil || len(recorded(t, e)) != 0 || e.RetryDue() {
		t.Errorf("%v, on record are %v", err, recorded(t, e))
	}
}

// TestNothingOfAnEarlierBoot: without a record nothing is due.
func TestNothingOfAnEarlierBoot(t *testing.T) {
	if e := fakeEngine(t, nil); e.RetryDue() {
		t.Error("something is due in a state directory that is new")
	}
}

// TestEarlierBootFails: what cannot be removed becomes pending.
func TestEarlierBootFails(t *testing.T) {
	e := fakeEngine(t, func(c *Config) {
		c.Cleaner = cleanerFunc(func(_ context.Context, left []state.Leftover) []error {
			return []error{errors.New("lock is held"), nil}
		})
	})
	earlierBoot(t, e, "a-stuck", fakeList(t, "n", fakecni.Script{}))
	earlierBoot(t, e, "b-gone", fakeList(t, "n", fakecni.Script{}))
	if err := remove.CleanBoot(t.Context(), e.env); err != nil {
		t.Fatal(err)
	}
	a, err := e.Status(t.Context(), "a-stuck")
	if err != nil || len(recorded(t, e)) != 1 || a.Attachments[0].Phase != state.Pending || a.Attachments[0].Error != "lock is held" {
		t.Errorf("recorded %+v, %v", a, err)
	}
}

// TestNamespaceOfThisBoot: an allocation of an earlier boot whose namespace was
// never identified has none now. Another one at its path is neither given to a
// plugin nor removed.
func TestNamespaceOfThisBoot(t *testing.T) {
	for name, end := range map[string]func(*Engine) error{
		"teardown":       func(e *Engine) error { return e.Teardown(t.Context(), "a") },
		"the first call": func(e *Engine) error { return remove.CleanBoot(t.Context(), e.env) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			e := fakeEngine(t, func(c *Config) {
				c.NetnsDir = dir
				c.Cleaner = cleanerFunc(func(_ context.Context, left []state.Leftover) []error {
					if ns, err := left[0].Allocation.Namespace(); !errors.Is(err, netns.ErrMissing) {
						_ = ns.Close()
						t.Errorf("the cleaner gets another's namespace: %v", err)
					}
					return make([]error, len(left))
				})
			})
			another := filepath.Join(dir, "a")
			if err := os.Symlink("/proc/self/ns/net", another); err != nil {
				t.Fatal(err)
			}
			calls := filepath.Join(dir, "calls")
			earlierBoot(t, e, "a", fakeList(t, "n", fakecni.Script{Log: calls}))
			if err := end(e); err != nil || len(recorded(t, e)) != 0 {
				t.Errorf("%v, on record are %v", err, recorded(t, e))
			}
			if !netns.Exists(another) {
				t.Error("another's namespace is removed")
			}
		})
	}
}

// TestEarlierBootInAContainer: where the host is not seen, nothing is taken for what
// an earlier boot left, and nothing is said to be cleaned.
func TestEarlierBootInAContainer(t *testing.T) {
	e := fakeEngine(t, func(c *Config) {
		c.Cleaner = cleanerFunc(func(_ context.Context, left []state.Leftover) []error { return make([]error, len(left)) })
	})
	earlierBoot(t, e, "host", fakeList(t, "n", fakecni.Script{}))
	host := e.env.Config.Host.(*insideHost)
	host.outside = hostns.Outside(errors.New("it is in a container"))
	if err := remove.CleanBoot(t.Context(), e.env); err != nil || len(recorded(t, e)) != 1 || e.RetryDue() {
		t.Errorf("%v, on record are %v", err, recorded(t, e))
	}
	host.outside = nil
	if err := remove.CleanBoot(t.Context(), e.env); err != nil || len(recorded(t, e)) != 0 {
		t.Errorf("then on the host: %v, on record are %v", err, recorded(t, e))
	}
}
