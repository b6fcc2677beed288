// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/selection"
)

// abandonedAllocations are those that an orchestrator has left: one that is attached, and one
// of which only the namespace is left. A third one lives.
func abandonedAllocations(t *testing.T) *memory {
	t.Helper()
	m := newMemory(t, nil)
	m.network(t, "web", "bridge")
	for _, id := range []string{"attached", "lives"} {
		request := Request{ID: id, Netns: m.namespaces.create(netns.DefaultDir + "/" + id), Primary: &selection.Element{Name: "web", Interface: "eth0"}}
		if _, err := m.Setup(t.Context(), request); err != nil {
			t.Fatal(err)
		}
	}
	m.namespaces.create(netns.DefaultDir + "/unknown")
	m.exec.names()
	return m
}

func TestGCAbandoned(t *testing.T) {
	m := abandonedAllocations(t)
	failed := errors.New("no /proc")
	c, err := m.GC(t.Context(), GCRequest{Leaks: IgnoreLeaks, Abandoned: func() ([]string, error) { return []string{"attached", "unknown"}, failed }})
	if !errors.Is(err, failed) || !slices.Equal(c.TornDown, []string{"attached", "unknown"}) {
		t.Errorf("torn down %q, %v", c.TornDown, err)
	}
	if calls := m.exec.names(); !slices.Contains(calls, "DEL bridge eth0") {
		t.Errorf("calls %q, want DEL", calls)
	}
	for id, want := range map[string]bool{"attached": false, "unknown": false, "lives": true} {
		if exists := m.namespaces.Exists(netns.DefaultDir + "/" + id); exists != want {
			t.Errorf("the namespace of %s exists: %t", id, exists)
		}
	}
	if got := recorded(t, m.Engine); fmt.Sprint(got) != "[lives]" {
		t.Errorf("on record %q", got)
	}
}

// TestGCAbandonedIsNotDone leaves the namespace of an allocation on which a call is in flight,
// and of one that cannot be torn down.
func TestGCAbandonedIsNotDone(t *testing.T) {
	m := abandonedAllocations(t)
	request := GCRequest{Leaks: IgnoreLeaks, Abandoned: func() ([]string, error) { return []string{"attached"}, nil }}
	o, err := m.env.Begin(t.Context(), "attached")
	if err != nil {
		t.Fatal(err)
	}
	if c, err := m.GC(t.Context(), request); err != nil || c.TornDown != nil {
		t.Errorf("locked: torn down %q, %v", c.TornDown, err)
	}
	o.End()
	m.namespaces.fail = func(op, _ string) error {
		if op == "Remove" {
			return errors.New("no umount")
		}
		return nil
	}
	if _, err := m.GC(t.Context(), request); err == nil || !strings.Contains(err.Error(), "allocation attached, which has ended: no umount") {
		t.Errorf("not removed: %v", err)
	}
	m.namespaces.fail = nil
	if c, err := m.GC(t.Context(), request); err != nil || !slices.Equal(c.TornDown, []string{"attached"}) || m.namespaces.Exists(netns.DefaultDir+"/attached") {
		t.Errorf("at last: torn down %q, %v", c.TornDown, err)
	}
}
