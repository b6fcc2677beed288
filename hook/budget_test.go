// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/allocnet/allocnet/hook/internal/kernel"
	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/internal/fakecni"
	"github.com/allocnet/allocnet/state"
)

// cleanerFunc is a Cleaner that covers the fake, and is a function.
type cleanerFunc func(ctx context.Context, left []state.Leftover) []error

func (f cleanerFunc) Clean(ctx context.Context, left []state.Leftover) []error { return f(ctx, left) }

func (cleanerFunc) Left(context.Context, state.Attachment, string) error { return nil }

func (f cleanerFunc) Covers(a state.Attachment) bool {
	return strings.Contains(string(a.ConfList), fakecni.Type)
}

// ownNetns is the path of a namespace that every fakeEngine has.
const ownNetns = "/proc/self/ns/net"

// ownNamespace has the namespace at ownNetns in memory, which needs no rights, and
// the others in the kernel.
type ownNamespace struct {
	kernel.Namespaces
	own kernel.Namespace
}

func (n ownNamespace) Open(path string) (kernel.Namespace, error) {
	if path == ownNetns {
		return n.own, nil
	}
	return n.Namespaces.Open(path)
}

// newOwnNamespace returns one whose namespace has nothing but lo.
func newOwnNamespace() ownNamespace {
	all := &fakeNamespaces{at: map[string]*fakeNamespace{}}
	all.add(all.create(ownNetns), loopback)
	return ownNamespace{kernel.NewNamespaces(), all.at[ownNetns]}
}

// insideHost is the host of the test, which may be a container.
type insideHost struct {
	kernel.Host
	outside error
}

func (h *insideHost) Outside() error { return h.outside }

// fakeEngine opens an engine whose only plugin is the fake.
func fakeEngine(t *testing.T, edit func(*Config)) *Engine {
	t.Helper()
	c := Config{ConfDirs: []string{t.TempDir()}, PluginDirs: []string{t.TempDir()}, StateDir: t.TempDir(), CacheDir: t.TempDir(), NetnsDir: t.TempDir(), Namespaces: newOwnNamespace(), Host: &insideHost{Host: kernel.NewHost()}, Cleaner: NoCleaner}
	fakecni.Install(t, c.PluginDirs[0])
	if edit != nil {
		edit(&c)
	}
	e, err := NewEngine(c)
	if err != nil {
		t.Fatal(err)
	}
	e.leaks = noLeaks
	return e
}

// fakeList is a conflist of the fake.
func fakeList(t *testing.T, network string, script fakecni.Script) json.RawMessage {
	t.Helper()
	data, err := json.Marshal(script)
	if err != nil {
		t.Fatal(err)
	}
	return json.RawMessage(fmt.Sprintf(`{"cniVersion": "1.1.0", "name": %q, "plugins": [{"type": "fakecni", "fake": %s}]}`, network, data))
}

// record puts an allocation on record whose namespace is gone.
func record(t *testing.T, e *Engine, id string, attachments ...state.Attachment) {
	t.Helper()
	boot, err := state.BootID()
	if err != nil {
		t.Fatal(err)
	}
	lock, err := e.env.Store.Lock(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Unlock()
	a := state.Allocation{ID: id, Mode: state.ModeSetup, Netns: t.TempDir() + "/gone", NetnsID: "1", BootID: boot, Digest: "x", Created: time.Now()}
	if err := lock.Begin(a, nil); err != nil {
		t.Fatal(err)
	}
	for _, attachment := range attachments {
		if err := lock.WriteDurable(attachment); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCleanupAfterHungDEL: the caller's deadline is not the plugin's.
func TestCleanupAfterHungDEL(t *testing.T) {
	cleaned := errors.New("not called")
	e := fakeEngine(t, func(c *Config) {
		c.CallTimeout = time.Hour
		c.Cleaner = cleanerFunc(func(ctx context.Context, left []state.Leftover) []error {
			cleaned = ctx.Err()
			return slices.Repeat([]error{cleaned}, len(left))
		})
	})
	record(t, e, "a1", state.Attachment{Network: "n", Interface: "eth0", Batch: onrecord.SetupBatch, Phase: state.Attached,
		ConfList: fakeList(t, "n", fakecni.Script{Verbs: map[string]fakecni.Behaviour{"DEL": {Hang: true}}})})
	ctx, stop := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer stop()
	if err := e.Teardown(ctx, "a1"); err != nil || cleaned != nil {
		t.Errorf("teardown: %v, forced cleanup: %v", err, cleaned)
	}
	if _, err := e.Status(t.Context(), "a1"); !errors.Is(err, state.ErrNotFound) {
		t.Errorf("it is still on record: %v", err)
	}
}
