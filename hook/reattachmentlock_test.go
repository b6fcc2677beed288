// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/allocnet/allocnet/state"
)

// TestReattachmentLocks: while some allocations are attached again, those that wait for it are not locked.
func TestReattachmentLocks(t *testing.T) {
	m := newMemory(t, nil)
	m.network(t, "web", "bridge")
	for i := range ParallelReattachments + 1 {
		id := fmt.Sprintf("w%d", i)
		path := m.namespaces.create("/run/netns/" + id)
		if _, err := m.Setup(t.Context(), Request{ID: id, Netns: path, Networks: named("web")}); err != nil {
			t.Fatal(err)
		}
		m.namespaces.removeInterface(path, "net1")
	}
	another, err := state.Open(m.env.Config.StateDir)
	if err != nil {
		t.Fatal(err)
	}
	var first sync.Once
	m.exec.answer = func(_ context.Context, c fakeCall) (bool, []byte, error) {
		if c.Verb == "DEL" {
			first.Do(func() {
				lock, err := another.TryLock(fmt.Sprintf("w%d", ParallelReattachments))
				if err != nil {
					t.Errorf("the last allocation: %v", err)
					return
				}
				lock.Unlock()
			})
		}
		return false, nil, nil
	}
	drifts := requireRepair(t, m, RepairRequest{Mode: RepairReattach})
	if len(drifts) != ParallelReattachments+1 {
		t.Errorf("%+v", drifts)
	}
	for _, d := range drifts {
		if !d.Reattached || !d.Repaired {
			t.Errorf("%+v", d)
		}
	}
}

// TestReattachmentEnds: an ADD that hangs is given up a while after its caller, and undone.
func TestReattachmentEnds(t *testing.T) {
	for grace, want := range map[time.Duration]time.Duration{0: 30 * time.Second, time.Second: time.Second, time.Hour: 30 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			m := newMemory(t, nil)
			m.network(t, "web", "bridge")
			path := m.namespaces.create("/run/netns/w1")
			if _, err := m.Setup(t.Context(), Request{ID: "w1", Netns: path, Networks: named("web")}); err != nil {
				t.Fatal(err)
			}
			m.namespaces.removeInterface(path, "net1")
			m.exec.names() // are forgotten
			ctx, cancel := context.WithCancel(t.Context())
			m.exec.answer = func(ctx context.Context, c fakeCall) (bool, []byte, error) {
				if c.Verb != "ADD" {
					return false, nil, ctx.Err()
				}
				cancel()
				<-ctx.Done()
				return true, nil, context.Cause(ctx)
			}
			began := time.Now()
			drifts, err := m.RepairAttachments(ctx, RepairRequest{Mode: RepairReattach, Grace: grace})
			if took := time.Since(began); err != nil || len(drifts) != 1 || drifts[0].Err == nil || took != want {
				t.Errorf("%+v, %v, after %s, want %s", drifts, err, took, want)
			}
			if calls := strings.Join(m.exec.names(), ", "); calls != "DEL bridge net1, ADD bridge net1, DEL bridge net1" {
				t.Errorf("called %s", calls)
			}
		})
	}
}
