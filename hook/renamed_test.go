// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"net/netip"
	"testing"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/selection"
	"github.com/allocnet/allocnet/state"
)

// TestIsRenamed: what a task has renamed is known by its MAC or its address; what a task has made is not the attachment's.
func TestIsRenamed(t *testing.T) {
	a := state.Attachment{Interface: "eth0", Status: []byte(`{"mac": "02:00:00:00:00:01", "addresses": ["192.0.2.9/24"]}`)}
	seen, err := readStatus(a)
	if err != nil {
		t.Fatal(err)
	}
	own, other := []netip.Prefix{netip.MustParsePrefix("192.0.2.9/24")}, []netip.Prefix{netip.MustParsePrefix("192.0.2.8/24")}
	for name, test := range map[string]struct {
		i    netns.Interface
		want bool
	}{
		"its MAC":                {netns.Interface{Name: "lan0", Kind: "macvlan", LinkOutside: true, MAC: "02:00:00:00:00:01"}, true},
		"its address":            {netns.Interface{Name: "lan0", Kind: "macvlan", LinkOutside: true, MAC: "02:00:00:00:00:02", Addresses: own}, true},
		"neither":                {netns.Interface{Name: "lan0", Kind: "macvlan", LinkOutside: true, MAC: "02:00:00:00:00:02", Addresses: other}, false},
		"its name":               {netns.Interface{Name: "eth0", Kind: "macvlan", LinkOutside: true, MAC: "02:00:00:00:00:01"}, false},
		"of the task":            {netns.Interface{Name: "lan0", Kind: "macvlan", MAC: "02:00:00:00:00:01", Addresses: own}, false},
		"a dummy":                {netns.Interface{Name: "lan0", Kind: "dummy", MAC: "02:00:00:00:00:01", Addresses: own}, false},
		"ipvlan by its address":  {netns.Interface{Name: "lan0", Kind: "ipvlan", LinkOutside: true, Addresses: own}, true},
		"ipvlan by the MAC only": {netns.Interface{Name: "lan0", Kind: "ipvlan", LinkOutside: true, MAC: "02:00:00:00:00:01"}, false},
		"vlan by its address":    {netns.Interface{Name: "lan0", Kind: "vlan", LinkOutside: true, Addresses: own}, true},
		"a pair":                 {netns.Interface{Name: "lan0", Kind: "veth", LinkOutside: true, MAC: "02:00:00:00:00:01", Addresses: own}, false},
	} {
		if got := seen.isRenamed(a.Interface, test.i); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
}

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
	at := indexOf(ns.interfaces, "lan0")
	ns.interfaces[at].Name, ns.interfaces[at].Kind, ns.interfaces[at].LinkOutside = "other0", "macvlan", true
	renamed := ns.interfaces[at]
	if err := m.Teardown(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if at := indexOf(ns.interfaces, "other0"); at >= 0 {
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
	m.moved = m.own.interfaces[indexOf(m.own.interfaces, "lan0")]
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
			if len(m.inner.interfaces) != 5 || indexOf(m.inner.interfaces, "inner0") >= 0 || m.namespaces.handles != 0 {
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
	if indexOf(neighbour.interfaces, "same0") < 0 || indexOf(m.inner.interfaces, "inner0") >= 0 {
		t.Errorf("the neighbour has %+v, want same0, and the inner namespace %+v, want nothing", neighbour.interfaces, m.inner.interfaces)
	}
}
