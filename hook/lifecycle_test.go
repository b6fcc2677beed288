// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/selection"
	"github.com/allocnet/allocnet/state"
)

// TestLifecycle sets an allocation up, checks it and tears it down: with a
// namespace of the engine's own, and with that of a runtime.
func TestLifecycle(t *testing.T) {
	for name, test := range map[string]struct {
		request           Request
		add, check, del   []string
		interfaces, after []string
	}{
		"own namespace": {
			Request{ID: "w1", Primary: &selection.Element{Name: "web", Interface: "eth0"}},
			[]string{"ADD bridge eth0", "ADD portmap eth0"},
			[]string{"CHECK bridge eth0", "CHECK portmap eth0"},
			[]string{"DEL portmap eth0", "DEL bridge eth0"},
			[]string{"eth0"}, nil,
		},
		"namespace of a runtime": {
			Request{ID: "w1", Netns: "/run/netns/w1", Networks: []selection.Element{{Name: "storage"}}},
			[]string{"ADD macvlan net1"}, []string{"CHECK macvlan net1"}, []string{"DEL macvlan net1"},
			[]string{"lo", "net1"}, []string{"lo"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMemory(t, nil)
			m.network(t, "web", "bridge", "portmap")
			m.network(t, "storage", "macvlan")
			if path := test.request.Netns; path != "" {
				m.namespaces.add(m.namespaces.create(path), loopback)
			}
			a, err := m.Setup(t.Context(), test.request)
			if err != nil {
				t.Fatal(err)
			}
			wantCalls(t, m, test.add)
			if got := m.namespaces.interfaces(a.Netns); !slices.Equal(got, test.interfaces) {
				t.Errorf("Setup: interfaces %q, want %q", got, test.interfaces)
			}
			if len(a.Attachments) != 1 || a.Attachments[0].Phase != state.Attached || len(a.Addresses()) != 1 {
				t.Errorf("Setup: %+v", a)
			}
			if checked, err := m.Check(t.Context(), "w1"); err != nil || len(checked) != 1 || checked[0].Skipped != "" {
				t.Errorf("Check: %+v, %v", checked, err)
			}
			wantCalls(t, m, test.check)
			if err := m.Teardown(t.Context(), "w1"); err != nil {
				t.Errorf("Teardown: %v", err)
			}
			wantCalls(t, m, test.del)
			if got := m.namespaces.interfaces(a.Netns); !slices.Equal(got, test.after) {
				t.Errorf("Teardown: interfaces %q, want %q", got, test.after)
			}
			if exists := m.namespaces.Exists(a.Netns); exists != (test.request.Netns != "") {
				t.Errorf("Teardown: namespace %s exists: %t", a.Netns, exists)
			}
			if _, err := m.Status(t.Context(), "w1"); !errors.Is(err, state.ErrNotFound) {
				t.Errorf("Status: %v, want ErrNotFound", err)
			}
		})
	}
}

func wantCalls(t *testing.T, m *memory, want []string) {
	t.Helper()
	if got := m.exec.names(); !slices.Equal(got, want) {
		t.Errorf("plugin calls %q, want %q", got, want)
	}
}

// TestPluginCall: what a plugin gets from the engine.
func TestPluginCall(t *testing.T) {
	m := newMemory(t, nil)
	m.network(t, "web", "bridge")
	a, err := m.Setup(t.Context(), Request{ID: "w1", Primary: &selection.Element{Name: "web", Interface: "eth0"}, Args: map[string]string{"K": "v"}})
	if err != nil {
		t.Fatal(err)
	}
	c := m.exec.calls[0]
	for key, want := range map[string]string{
		"CNI_CONTAINERID": "w1", "CNI_NETNS": filepath.Join(m.env.Config.NetnsDir, "w1"), "CNI_ARGS": "IgnoreUnknown=true;K=v",
		"CNI_PATH": m.env.Config.PluginDirs[0],
	} {
		if got := c.Environ[key]; got != want && !strings.HasPrefix(got, want+":") {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	if a.Netns != c.Environ["CNI_NETNS"] {
		t.Errorf("namespace %s, want %s", a.Netns, c.Environ["CNI_NETNS"])
	}
	if !strings.Contains(string(c.Stdin), `"type":"bridge"`) {
		t.Errorf("plugin configuration %s", c.Stdin)
	}
}
