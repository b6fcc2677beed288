// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/selection"
)

// TestExtendAgainKeepsAttached: an Extend that fails undoes what it did, and not an
// attachment that an earlier Extend with the same request made, and that is live.
func TestExtendAgainKeepsAttached(t *testing.T) {
	m := newMemory(t, nil)
	m.network(t, "a", "first-a")
	m.network(t, "b", "first-b")
	path := m.namespaces.create("/run/netns/runtime")
	m.namespaces.add(path, netns.Interface{Name: "eth0", Up: true})
	request := Request{ID: "w1", Netns: path, Networks: []selection.Element{{Name: "a"}, {Name: "b"}}}
	if _, err := m.Extend(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	if err := m.Detach(t.Context(), "w1", "net1"); err != nil {
		t.Fatal(err)
	}
	m.exec.answer = func(_ context.Context, c fakeCall) (bool, []byte, error) {
		return c.String() == "ADD first-b net3", nil, permanent
	}
	m.exec.names()
	if _, err := m.Extend(t.Context(), request); err == nil {
		t.Fatal("the second Extend succeeded")
	}
	if got := m.namespaces.interfaces(path); !slices.Contains(got, "net2") {
		t.Errorf("the namespace has %v, want net2, which was attached before; calls: %v", got, m.exec.names())
	}
}

// TestKilledExtendAgainKeepsAttached: the same when the second Extend is killed. GC
// removes what that call did, all of it.
func TestKilledExtendAgainKeepsAttached(t *testing.T) {
	k := killable{
		find: inTurn(setup(ownRequest), extend(extendRequest), func(w *world) error { return w.Detach(w.ctx, "own", "net2") }),
		call: extend(extendRequest),
	}
	killedBeforeEach(t, install(t), k, func(w *world, when string) {
		if err := collect(w); err != nil {
			t.Error(err)
		}
		w.wantRecorded()
		got := w.namespaces.interfaces(filepath.Join(w.config.NetnsDir, "own"))
		before, after := []string{"eth0", "net1", "net3"}, []string{"eth0", "net1", "net2", "net3", "net4"}
		if !slices.Equal(got, before) && !slices.Equal(got, after) {
			t.Errorf("%s: the namespace has %v, want %v or %v", when, got, before, after)
		}
	})
}

// TestFailedUndoIsTold: what an Extend that fails has attached and cannot detach is part of its error, and stays on record.
func TestFailedUndoIsTold(t *testing.T) {
	m := newMemory(t, nil)
	m.network(t, "a", "first-a")
	m.network(t, "b", "first-b")
	path := m.namespaces.create("/run/netns/runtime")
	m.exec.answer = func(_ context.Context, c fakeCall) (bool, []byte, error) {
		text := c.String()
		return strings.HasPrefix(text, "ADD first-b") || strings.HasPrefix(text, "DEL first-a"), nil, permanent
	}
	_, err := m.Extend(t.Context(), Request{ID: "w1", Netns: path, Networks: []selection.Element{{Name: "a"}, {Name: "b"}}})
	if err == nil || !strings.Contains(err.Error(), "undo: ") || errdefs.Of(err) != errdefs.Failed {
		t.Errorf("%v, want what could not be undone", err)
	}
}
