// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"path/filepath"
	"slices"
	"testing"

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
	i := install(t)
	k := killable{
		find: inTurn(setup(ownRequest), extend(extendRequest), func(w *world) error { return w.Detach(w.ctx, "own", "net2") }),
		call: extend(extendRequest),
	}
	for at, effect := range k.effects(t, i) {
		w := k.world(t, i)
		w.killAt(at, false)
		_ = k.call(w) // a dead process returns nothing
		w.bury()
		if err := collect(w); err != nil {
			t.Error(err)
		}
		w.wantRecorded()
		got := w.namespaces.interfaces(filepath.Join(w.config.NetnsDir, "own"))
		before, after := []string{"eth0", "net1", "net3"}, []string{"eth0", "net1", "net2", "net3", "net4"}
		if !slices.Equal(got, before) && !slices.Equal(got, after) {
			t.Errorf("killed before %q: the namespace has %v, want %v or %v", effect, got, before, after)
		}
	}
}
