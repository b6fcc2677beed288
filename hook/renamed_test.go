// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"testing"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/selection"
)

// TestRenamedIsRemoved: DEL of a network with a master removes what has its MAC under another name, before it gives the address back.
func TestRenamedIsRemoved(t *testing.T) {
	m := newMemory(t, nil)
	m.host.links = map[string]bool{"up0": true}
	m.network(t, "lan", `{"type": "macvlan", "master": "up0"}`, "macvlan")
	a, err := m.Setup(t.Context(), Request{ID: "a", Networks: []selection.Element{{Name: "lan", Interface: "lan0"}}})
	if err != nil {
		t.Fatal(err)
	}
	ns := m.namespaces.at[a.Netns]
	at := netns.Index(ns.interfaces, "lan0")
	ns.interfaces[at].Name, ns.interfaces[at].Kind, ns.interfaces[at].LinkOutside = "other0", "macvlan", true
	renamed := ns.interfaces[at]
	if err := m.Teardown(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if at := netns.Index(ns.interfaces, "other0"); at >= 0 {
		t.Errorf("%+v is left", renamed)
	}
}

// movedAway is an allocation of which a task has moved a macvlan to another namespace, as inner0.
type movedAway struct {
	*memory
	own, inner *fakeNamespace
	// moved is the interface, without the name.
	moved netns.Interface
}

func newMovedAway(t *testing.T) *movedAway {
	t.Helper()
	m := &movedAway{memory: newMemory(t, nil)}
	m.host.links = map[string]bool{"up0": true}
	m.host.interfaces = []netns.Interface{{Name: "other0", Index: 6}, {Name: "up0", Index: 7}}
	m.network(t, "lan", `{"type": "macvlan", "master": "up0"}`, "macvlan")
	a, err := m.Setup(t.Context(), Request{ID: "a", Networks: []selection.Element{{Name: "lan", Interface: "lan0"}}})
	if err != nil {
		t.Fatal(err)
	}
	m.own, m.inner = m.namespaces.at[a.Netns], m.namespaces.make()
	m.inner.kept = true
	m.moved = m.own.interfaces[netns.Index(m.own.interfaces, "lan0")]
	m.moved.Kind, m.moved.LinkOutside, m.moved.Link = "macvlan", true, 7
	m.namespaces.removeInterface(a.Netns, "lan0")
	m.add(m.inner, "inner0", func(*netns.Interface) {})
	return m
}

func (m *movedAway) add(to *fakeNamespace, name string, change func(*netns.Interface)) {
	i := m.moved
	i.Name = name
	change(&i)
	to.interfaces = append(to.interfaces, i)
}

// TestMovedAwayIsRemoved: so it does in another namespace to which a task has moved it, whether its own is there still, and has
// another interface of its name. Others that have a part of what tells it stay, as they may be of other programs.
func TestMovedAwayIsRemoved(t *testing.T) {
	for name, prepare := range map[string]func(*movedAway) error{
		"its namespace is there": func(*movedAway) error { return nil },
		"its namespace is gone":  func(m *movedAway) error { return m.namespaces.Remove(m.own.path) },
		"another one has its name": func(m *movedAway) error {
			m.add(m.own, "lan0", func(i *netns.Interface) { i.Kind, i.MAC, i.Addresses = "veth", "02:00:00:00:00:98", nil })
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMovedAway(t)
			m.add(m.inner, "without the address", func(i *netns.Interface) { i.Addresses = nil })
			m.add(m.inner, "with another MAC", func(i *netns.Interface) { i.MAC = "02:00:00:00:00:99" })
			m.add(m.inner, "on another master", func(i *netns.Interface) { i.Link = 6 })
			m.add(m.inner, "of another kind", func(i *netns.Interface) { i.Kind = "ipvlan" })
			m.add(m.inner, "of the namespace", func(i *netns.Interface) { i.LinkOutside = false })
			if err := prepare(m); err != nil {
				t.Fatal(err)
			}
			if err := m.Teardown(t.Context(), "a"); err != nil {
				t.Fatal(err)
			}
			if len(m.inner.interfaces) != 5 || netns.Index(m.inner.interfaces, "inner0") >= 0 || m.namespaces.handles != 0 {
				t.Errorf("left %+v, want the five others; %d namespaces are open", m.inner.interfaces, m.namespaces.handles)
			}
		})
	}
}

// TestNeighbourIsNotMovedAway: the next allocation with a configured MAC may have got the address of an unfinished teardown. What
// is in its namespace stays.
func TestNeighbourIsNotMovedAway(t *testing.T) {
	m := newMovedAway(t)
	b, err := m.Setup(t.Context(), Request{ID: "b", Networks: []selection.Element{{Name: "lan", Interface: "lan0"}}})
	if err != nil {
		t.Fatal(err)
	}
	neighbour := m.namespaces.at[b.Netns]
	neighbour.kept = true
	m.add(neighbour, "same0", func(*netns.Interface) {})
	if err := m.Teardown(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if netns.Index(neighbour.interfaces, "same0") < 0 || netns.Index(m.inner.interfaces, "inner0") >= 0 {
		t.Errorf("the neighbour has %+v, want same0, and the inner namespace %+v, want nothing", neighbour.interfaces, m.inner.interfaces)
	}
}
