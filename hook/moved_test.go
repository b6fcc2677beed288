// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"strings"
	"testing"

	"github.com/allocnet/allocnet/state"
)

// TestNotReattachedWithoutProof: an interface whose plugin tells of no end on the host may be in another
// namespace: with its address, which nothing else may get.
func TestNotReattachedWithoutProof(t *testing.T) {
	for name, test := range map[string]struct {
		plugin string
		change func(result string) string
	}{
		"no pair":              {"ipvlan", nil},
		"the network's bridge": {`{"type": "bridge", "bridge": "veth0000000a"}`, nil},
		"no MAC":               {"bridge", func(r string) string { return strings.ReplaceAll(r, "02:00:00:00:00:99", "") }},
		"no interfaces":        {"bridge", func(r string) string { return strings.ReplaceAll(r, `"interfaces"`, `"others"`) }},
		"another interface":    {"bridge", func(r string) string { return strings.ReplaceAll(r, `"net1"`, `"net2"`) }},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMemory(t, nil)
			m.network(t, "web", test.plugin)
			path := m.namespaces.create("/run/netns/w1")
			if _, err := m.Setup(t.Context(), Request{ID: "w1", Netns: path, Networks: named("web")}); err != nil {
				t.Fatal(err)
			}
			if test.change != nil {
				requireRewritten(t, m, "w1", func(a *state.Attachment) { a.Result = []byte(test.change(string(a.Result))) })
			}
			m.namespaces.removeInterface(path, "net1")
			m.exec.names() // are forgotten
			drifts := requireRepair(t, m, RepairRequest{Mode: RepairReattach})
			if len(drifts) != 1 || drifts[0].Err == nil || !strings.Contains(drifts[0].Err.Error(), "nothing tells whether net1 is gone") || !drifts[0].Open() {
				t.Errorf("%+v", drifts)
			}
			if calls := m.exec.names(); len(calls) > 0 {
				t.Errorf("called %q", calls)
			}
		})
	}
}

// requireNoPluginDirs has the plugin directory of the first attachment be that of the configuration.
func requireNoPluginDirs(t *testing.T, m *memory, id string) {
	t.Helper()
	requireRewritten(t, m, id, func(a *state.Attachment) { a.PluginDirs = nil })
}

// requireRewritten changes what is on record of the first attachment.
func requireRewritten(t *testing.T, m *memory, id string, change func(a *state.Attachment)) {
	t.Helper()
	o, err := m.env.Begin(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	defer o.End()
	a := &o.Record.Attachments[0]
	change(a)
	if err := o.Lock.Write(*a); err != nil {
		t.Fatal(err)
	}
}
