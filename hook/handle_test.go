// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/allocnet/allocnet/selection"
)

// TestNamespacesAreClosed: no call leaves a namespace open, also not that of another allocation whose damaged record it has read.
func TestNamespacesAreClosed(t *testing.T) {
	m := newMemory(t, nil)
	m.network(t, "web", `{"type": "bridge", "capabilities": {"ips": true}}`)
	path := m.namespaces.create("/run/netns/w1")
	for _, call := range []struct {
		name string
		do   func() error
	}{
		{"Setup", func() error {
			_, err := m.Setup(t.Context(), Request{ID: "w1", Netns: path, Networks: named("web")})
			return err
		}},
		{"Check", func() error { _, err := m.Check(t.Context(), "w1"); return err }},
		{"Verify", func() error {
			return m.Verify(t.Context(), Verification{ID: "w1", Netns: path, Interface: "net1"})
		}},
		{"RepairAttachments", func() error { _, err := m.RepairAttachments(t.Context(), RepairRequest{}); return err }},
		{"Extend", func() error {
			_, err := m.Extend(t.Context(), Request{ID: "w1", Networks: []selection.Element{{Name: "web", Interface: "net2"}}})
			return err
		}},
		{"Detach", func() error { return m.Detach(t.Context(), "w1", "net2") }},
		{"Setup beside a damaged record", func() error {
			damageLine(t, filepath.Join(m.env.Config.StateDir, "allocations", "w1", "journal"), 2, damages["cut"])
			_, err := m.Setup(t.Context(), Request{ID: "w2", Netns: m.namespaces.create("/run/netns/w2"), Networks: []selection.Element{{Name: "web", IPs: []string{"10.0.0.77/24"}}}})
			if damaged := (*DamagedRecordError)(nil); !errors.As(err, &damaged) {
				return fmt.Errorf("another record is damaged, and the error is: %w", err)
			}
			return nil
		}},
	} {
		if err := call.do(); err != nil {
			t.Errorf("%s: %v", call.name, err)
		}
		if m.namespaces.handles != 0 {
			t.Errorf("%s: %d namespaces are open", call.name, m.namespaces.handles)
			m.namespaces.handles = 0
		}
	}
}
