// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/hook/internal/inspect"
	"github.com/allocnet/allocnet/internal/netns"
)

// loopbackUp tells whether lo is up in the namespace at a path.
func (m *memory) loopbackUp(path string) bool {
	m.namespaces.mu.Lock()
	defer m.namespaces.mu.Unlock()
	return m.namespaces.at[path].interfaces[0].Up
}

// TestLoopback: a runtime may leave lo down. It is up before the first plugin runs, and
// after all attachments are removed; a check that finds it down fails.
func TestLoopback(t *testing.T) {
	for name, call := range map[string]func(*memory, context.Context, Request) (*Allocation, error){
		"Setup":  func(m *memory, ctx context.Context, r Request) (*Allocation, error) { return m.Setup(ctx, r) },
		"Extend": func(m *memory, ctx context.Context, r Request) (*Allocation, error) { return m.Extend(ctx, r) },
	} {
		t.Run(name, func(t *testing.T) {
			m := newMemory(t, nil)
			m.network(t, "a", "bridge")
			path := m.namespaces.create("/run/netns/w1")
			m.namespaces.add(path, netns.Interface{Name: "lo", MTU: 65536})
			m.exec.answer = func(_ context.Context, c fakeCall) (bool, []byte, error) {
				if c.Verb == "ADD" && !m.loopbackUp(path) {
					t.Errorf("%s while lo is down", c)
				}
				return false, nil, nil
			}
			if _, err := call(m, t.Context(), Request{ID: "w1", Netns: path, Networks: named("a")}); err != nil {
				t.Fatal(err)
			}
			if _, err := m.Check(t.Context(), "w1"); err != nil {
				t.Errorf("with lo up: %v", err)
			}
			m.namespaces.at[path].interfaces[0].Up = false
			_, err := m.Check(t.Context(), "w1")
			if err == nil || !strings.Contains(err.Error(), "interface lo is down") || !inspect.IsDamage(err) {
				t.Errorf("with lo down: %v", err)
			}
			m.namespaces.at[path].interfaces[0].Up = true
			if err := m.Teardown(t.Context(), "w1"); err != nil || !m.loopbackUp(path) {
				t.Errorf("after Teardown lo is up: %v, error %v", m.loopbackUp(path), err)
			}
		})
	}
}
