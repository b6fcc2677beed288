// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/allocnet/allocnet/hook/internal/operation"
	"github.com/allocnet/allocnet/internal/netns"
)

// extended returns an engine with allocation w1, which is attached to networks of the
// plugins first, second and third in this order, as net1, net2 and net3.
func extended(t *testing.T) *memory {
	t.Helper()
	m := newMemory(t, nil)
	for _, name := range []string{"first", "second", "third"} {
		m.network(t, name, name)
	}
	path := m.namespaces.create("/run/netns/runtime")
	m.namespaces.add(path, netns.Interface{Name: "eth0", Up: true})
	m.extend(t, "first", "second", "third")
	m.exec.names()
	return m
}

func (m *memory) extend(t *testing.T, networks ...string) {
	t.Helper()
	if _, err := m.Extend(t.Context(), Request{ID: "w1", Netns: "/run/netns/runtime", Networks: named(networks...)}); err != nil {
		t.Fatal(err)
	}
}

// wantTeardown wants the teardown of w1 to run DEL in an order. A teardown that waits for
// itself fails when its context ends.
func (m *memory) wantTeardown(t *testing.T, order ...string) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	if err := m.Teardown(ctx, "w1"); err != nil {
		t.Error(err)
	}
	if got := m.exec.names(); !slices.Equal(got, order) {
		t.Errorf("calls %q, want %q", got, order)
	}
}

// TestTeardownOfReusedInterface: a free interface name may be taken again, also by an
// attachment whose master is the one that once came after it.
func TestTeardownOfReusedInterface(t *testing.T) {
	m := extended(t) // unknown plugins may set a default route: net2 comes after net1
	m.network(t, "on-net2", `{"type": "macvlan", "master": "net2", "linkInContainer": true}`)
	if err := m.Detach(t.Context(), "w1", "net1"); err != nil {
		t.Fatal(err)
	}
	m.extend(t, "on-net2") // gets net1, which is free
	m.exec.names()
	if err := m.Detach(t.Context(), "w1", "net3"); err != nil {
		t.Fatal(err)
	}
	m.exec.names()
	m.wantTeardown(t, "DEL macvlan net1", "DEL second net2")
}

// TestTeardownOfCycle: a record may have been damaged or edited. Of attachments that depend
// on each other the newest is removed first.
func TestTeardownOfCycle(t *testing.T) {
	for name, dependsOn := range map[string][3][]string{
		"of two":       {{"net3"}, {"net1"}, {"net1", "net2"}},
		"of three":     {{"net2"}, {"net3", "net1"}, {"net2"}},
		"of itself":    {{"net1"}, {"net2", "net1"}, {"net3", "net2"}},
		"of unknown":   {{"net4", ""}, {"net1", "net4"}, {"net2", "net4"}},
		"of all three": {{"net1", "net2", "net3"}, {"net1", "net2", "net3"}, {"net1", "net2", "net3"}},
	} {
		t.Run(name, func(t *testing.T) {
			m := extended(t)
			lock, err := m.env.Store.Lock(t.Context(), "w1")
			if err != nil {
				t.Fatal(err)
			}
			record, err := lock.Load()
			for i, a := range record.Attachments {
				a.DependsOn = dependsOn[i]
				if err == nil {
					err = lock.Write(a)
				}
			}
			lock.Unlock()
			if err != nil {
				t.Fatal(err)
			}
			m.wantTeardown(t, "DEL third net3", "DEL second net2", "DEL first net1")
		})
	}
}

// TestInOrderEnds: when the context ends, nothing is waited for any more, and each is
// still called: what was not called would count as done.
func TestInOrderEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		begun, called := time.Now(), [3]time.Duration{}
		operation.InOrder(ctx, len(called), func(i int) []int { return [][]int{{1}, {0}, nil}[i] }, func(i int) { called[i] = time.Since(begun) })
		if called != [3]time.Duration{time.Minute, time.Minute, 0} {
			t.Errorf("called after %v", called)
		}
	})
}
