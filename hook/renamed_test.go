// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/selection"
	"github.com/allocnet/allocnet/state"
)

// TestIsRenamed: what a task has renamed is known by its MAC or its address; what a task has made is not the attachment's.
func TestIsRenamed(t *testing.T) {
	a := state.Attachment{Interface: "eth0", Status: []byte(`{"mac": "02:00:00:00:00:01", "addresses": ["192.0.2.9/24"]}`)}
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
		if got := isRenamed(a, test.i); got != test.want {
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

// TestMovedAwayIsRemoved: so it does in another namespace to which a task has moved it, whether its own is there still. Others that
// have only the MAC or only the address stay.
func TestMovedAwayIsRemoved(t *testing.T) {
	for _, gone := range []bool{false, true} {
		m := newMemory(t, nil)
		m.host.links = map[string]bool{"up0": true}
		m.network(t, "lan", `{"type": "macvlan", "master": "up0"}`, "macvlan")
		a, err := m.Setup(t.Context(), Request{ID: "a", Networks: []selection.Element{{Name: "lan", Interface: "lan0"}}})
		if err != nil {
			t.Fatal(err)
		}
		ns := m.namespaces.at[a.Netns]
		at := indexOf(ns.interfaces, "lan0")
		moved := ns.interfaces[at]
		moved.Name, moved.LinkOutside = "inner0", true
		m.namespaces.removeInterface(a.Netns, "lan0")
		inner := m.namespaces.make()
		inner.kept = true
		for _, i := range []struct {
			name, mac string
			addresses []netip.Prefix
		}{{"inner0", moved.MAC, moved.Addresses}, {"mac0", moved.MAC, nil}, {"address0", "02:00:00:00:00:99", moved.Addresses}} {
			moved.Name, moved.MAC, moved.Addresses = i.name, i.mac, i.addresses
			inner.interfaces = append(inner.interfaces, moved)
		}
		if gone {
			if err := m.namespaces.Remove(a.Netns); err != nil {
				t.Fatal(err)
			}
		}
		if err := m.Teardown(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		if len(inner.interfaces) != 2 || indexOf(inner.interfaces, "inner0") >= 0 || m.namespaces.handles != 0 {
			t.Errorf("namespace gone %t: left %+v, want the two others; %d namespaces are open", gone, inner.interfaces, m.namespaces.handles)
		}
	}
}

// TestNeighbourIsNotMovedAway: interfaces of two VLANs, or of two masters with one MAC, may have the same MAC and the same address, as may
// one that has got the address of an unfinished teardown. What is in the namespace of another allocation stays.
func TestNeighbourIsNotMovedAway(t *testing.T) {
	m := newMemory(t, nil)
	m.host.links = map[string]bool{"up0": true}
	var made []*Allocation
	for i, id := range []string{"a", "b"} {
		network := "lan" + id
		m.network(t, network, fmt.Sprintf(`{"type": "vlan", "master": "up0", "vlanId": %d}`, 10+i), "vlan")
		a, err := m.Setup(t.Context(), Request{ID: id, Networks: []selection.Element{{Name: network, Interface: "lan0"}}})
		if err != nil {
			t.Fatal(err)
		}
		made = append(made, a)
	}
	own, other := m.namespaces.at[made[0].Netns], m.namespaces.at[made[1].Netns]
	same := &other.interfaces[indexOf(other.interfaces, "lan0")]
	of := own.interfaces[indexOf(own.interfaces, "lan0")]
	same.MAC, same.Addresses, same.Kind, same.LinkOutside = of.MAC, of.Addresses, "vlan", true
	other.kept = true
	if err := m.namespaces.Remove(made[0].Netns); err != nil {
		t.Fatal(err)
	}
	if err := m.Teardown(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if indexOf(other.interfaces, "lan0") < 0 {
		t.Errorf("the teardown of a has removed the interface of b: left %+v", other.interfaces)
	}
}
