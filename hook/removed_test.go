// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/selection"
	"github.com/allocnet/allocnet/state"
)

// TestRemovedOnceOnly: an attachment whose DEL succeeded is removed, also if another
// one of the same call cannot be. It is not shown, its interface name is free, and no
// further DEL takes an interface that another program made under that name since.
func TestRemovedOnceOnly(t *testing.T) {
	busy := errors.New("the device is busy")
	m := newMemory(t, func(c *Config) { c.Cleaner = NoCleaner })
	m.network(t, "a", "first-a")
	m.network(t, "b", "first-b")
	path := m.namespaces.create("/run/netns/runtime")
	m.namespaces.add(path, netns.Interface{Name: "eth0", Up: true})
	m.namespaces.at[path].routes = []netns.Route{{Interface: "eth0", Gateway: netip.MustParseAddr("192.0.2.1")}}
	request := Request{ID: "w1", Netns: path, Task: "web", Networks: []selection.Element{{Name: "a", Interface: "net1"}, {Name: "b", Interface: "net2"}}}
	if _, err := m.Extend(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	m.exec.answer = func(_ context.Context, c fakeCall) (bool, []byte, error) {
		return c.String() == "DEL first-b net2", nil, busy
	}
	if err := m.Release(t.Context(), "w1", "web"); !errors.Is(err, busy) {
		t.Fatalf("release: %v", err)
	}
	a, err := m.Status(t.Context(), "w1")
	if err != nil {
		t.Fatal(err)
	}
	for _, attachment := range a.Attachments {
		if attachment.Interface == "net1" {
			t.Errorf("net1 is gone, and on record in phase %q", attachment.Phase)
		}
	}
	if got := m.namespaces.interfaces(path); len(got) != 2 {
		t.Fatalf("the namespace has %v", got)
	}
	m.namespaces.add(path, netns.Interface{Name: "net1", Up: true}) // by another program
	m.exec.answer = nil
	if err := m.Release(t.Context(), "w1", "web"); err != nil && !errors.Is(err, state.ErrNotFound) {
		t.Fatal(err)
	}
	if got := m.namespaces.interfaces(path); len(got) != 2 || got[1] != "net1" {
		t.Errorf("the namespace has %v, want eth0 and the net1 of another program; calls: %v", got, m.exec.names())
	}
}
