// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"errors"
	"fmt"
	"testing"
)

// TestCurrent: what is gone is not shown as attached, and what is not known is shown as recorded.
func TestCurrent(t *testing.T) {
	const path = "/run/netns/w1"
	for name, test := range map[string]struct {
		change func(*testing.T, *memory)
		want   string
	}{
		"sound":             {func(*testing.T, *memory) {}, "[net1 attached  net2 attached ]"},
		"interface is gone": {func(_ *testing.T, m *memory) { m.namespaces.removeInterface(path, "net1") }, "[net1 missing interface gone net2 attached ]"},
		"namespace is gone": {func(_ *testing.T, m *memory) { delete(m.namespaces.at, path) }, "[net1 missing namespace gone net2 missing namespace gone]"},
		"another namespace": {func(_ *testing.T, m *memory) { m.namespaces.create(path) }, "[net1 missing namespace gone net2 missing namespace gone]"},
		"not permitted": {func(_ *testing.T, m *memory) {
			m.namespaces.fail = func(string, string) error { return errors.New("not permitted") }
		}, "[net1 attached  net2 attached ]"},
		"in a container": {func(_ *testing.T, m *memory) {
			delete(m.namespaces.at, path)
			m.host.outside = errors.New("it may be")
		}, "[net1 attached  net2 attached ]"},
		"changed meanwhile": {func(t *testing.T, m *memory) {
			m.namespaces.removeInterface(path, "net1")
			m.namespaces.fail = func(string, string) error {
				m.namespaces.fail = nil
				return m.Detach(t.Context(), "w1", "net2")
			}
		}, "[net1 attached  net2 attached ]"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMemory(t, nil)
			m.network(t, "a", "bridge")
			m.network(t, "b", "bridge")
			m.namespaces.add(m.namespaces.create(path), loopback)
			a, err := m.Setup(t.Context(), Request{ID: "w1", Netns: path, Networks: named("a", "b")})
			if err != nil {
				t.Fatal(err)
			}
			test.change(t, m)
			var got []string
			for _, n := range m.Current(a).Attachments {
				got = append(got, fmt.Sprintf("%s %s %s", n.Interface, n.Phase, n.Missing))
			}
			if fmt.Sprint(got) != test.want {
				t.Errorf("got %v, want %s", got, test.want)
			}
			if m.namespaces.handles != 0 {
				t.Errorf("%d namespaces are open", m.namespaces.handles)
			}
		})
	}
}
