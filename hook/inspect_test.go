// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/hook/internal/inspect"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/state"
)

// TestInspect: what differs inside of the namespace is found without a plugin, and told from
// what is not known.
func TestInspect(t *testing.T) {
	const path = "/run/netns/w1"
	at := func(m *memory) *fakeNamespace { return m.namespaces.at[path] }
	net1 := func(m *memory) *netns.Interface {
		i := slices.IndexFunc(at(m).interfaces, func(i netns.Interface) bool { return i.Name == "net1" })
		return &at(m).interfaces[i]
	}
	for name, test := range map[string]struct {
		change func(*testing.T, *memory)
		// attachment and whole are in the errors of the attachment to a, and of all.
		attachment, whole string
		unknown           bool
	}{
		"sound":             {change: func(*testing.T, *memory) {}},
		"interface is gone": {change: func(_ *testing.T, m *memory) { m.namespaces.removeInterface(path, "net1") }, attachment: "interface is gone"},
		"interface is down": {change: func(_ *testing.T, m *memory) { net1(m).Up = false }, attachment: "interface is down"},
		"address is gone":   {change: func(_ *testing.T, m *memory) { net1(m).Addresses = nil }, attachment: "/24 is gone"},
		"a route more": {change: func(_ *testing.T, m *memory) {
			at(m).routes = append(at(m).routes, netns.Route{Interface: "net1", Gateway: netip.MustParseAddr("10.0.0.9")})
		}, attachment: "default route"},
		"lo is down":        {change: func(_ *testing.T, m *memory) { at(m).interfaces[0].Up = false }, whole: "interface lo is down"},
		"namespace is gone": {change: func(_ *testing.T, m *memory) { delete(m.namespaces.at, path) }, whole: "nothing is there"},
		"another namespace": {change: func(_ *testing.T, m *memory) { m.namespaces.create(path) }, whole: "another namespace"},
		"not permitted": {change: func(_ *testing.T, m *memory) {
			m.namespaces.fail = func(string, string) error { return errors.New("not permitted") }
		}, whole: "not permitted", unknown: true},
		"changed meanwhile": {change: func(t *testing.T, m *memory) {
			m.namespaces.removeInterface(path, "net1")
			m.namespaces.fail = func(string, string) error {
				m.namespaces.fail = nil
				return m.Detach(t.Context(), "w1", "net2")
			}
		}, whole: "the allocation is being changed", unknown: true},
		"in flight": {change: func(t *testing.T, m *memory) {
			m.namespaces.removeInterface(path, "net1")
			lock, err := m.env.Store.Lock(t.Context(), "w1")
			if err != nil {
				t.Fatal(err)
			}
			defer lock.Unlock()
			r, err := lock.Load()
			if err != nil {
				t.Fatal(err)
			}
			r.Attachments[1].Phase = state.Deleting
			if err := lock.WriteDurable(r.Attachments[1]); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMemory(t, nil)
			m.network(t, "a", "bridge")
			m.network(t, "b", "bridge")
			m.namespaces.add(m.namespaces.create(path), loopback)
			if _, err := m.Setup(t.Context(), Request{ID: "w1", Netns: path, Networks: named("a", "b")}); err != nil {
				t.Fatal(err)
			}
			m.exec.names()
			test.change(t, m)
			m.exec.names()
			checked, whole := m.Inspect(t.Context(), "w1")
			var first error
			for _, c := range checked {
				if c.Skipped == "" {
					t.Errorf("%+v does not say that no plugin was asked", c)
				}
				if c.Interface == "net1" {
					first = c.Err
				} else if c.Err != nil {
					t.Errorf("%s: %v", c.Interface, c.Err)
				}
			}
			for _, e := range []struct {
				err  error
				want string
			}{{first, test.attachment}, {whole, test.whole}} {
				if (e.err == nil) != (e.want == "") || e.err != nil && !strings.Contains(e.err.Error(), e.want) {
					t.Errorf("got %v, want %q", e.err, e.want)
				}
				if e.err != nil && inspect.IsDamage(e.err) == test.unknown {
					t.Errorf("%v is taken for unknown: %v", e.err, !test.unknown)
				}
			}
			if calls := m.exec.names(); slices.ContainsFunc(calls, func(c string) bool { return strings.HasPrefix(c, "CHECK") }) {
				t.Errorf("plugins were asked: %q", calls)
			}
			if m.namespaces.handles != 0 {
				t.Errorf("%d namespaces are open", m.namespaces.handles)
			}
		})
	}
}

// TestInspectUnrecorded: there is no such allocation.
func TestInspectUnrecorded(t *testing.T) {
	if _, err := newMemory(t, nil).Inspect(t.Context(), "w1"); !errors.Is(err, state.ErrNotFound) {
		t.Errorf("got %v, want %v", err, state.ErrNotFound)
	}
}
