// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/allocnet/allocnet/hook/internal/inspect"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/selection"
)

// unknownPlugins has two allocations of a network whose plugins are unknown, and answers their
// CHECK.
func unknownPlugins(t *testing.T, answer func(container string) error) *memory {
	t.Helper()
	m := newMemory(t, nil)
	m.network(t, "web", "bridge")
	for _, id := range []string{"a", "b"} {
		if _, err := m.Setup(t.Context(), Request{ID: id, Primary: &selection.Element{Name: "web", Interface: "eth0"}}); err != nil {
			t.Fatal(err)
		}
	}
	m.exec.names() // are forgotten
	m.exec.answer = func(_ context.Context, c fakeCall) (bool, []byte, error) {
		if c.Verb != "CHECK" {
			return false, nil, nil
		}
		return true, nil, answer(c.Environ["CNI_CONTAINERID"])
	}
	return m
}

func requireRepair(t *testing.T, m *memory, r RepairRequest) []Drift {
	t.Helper()
	drifts, err := m.RepairAttachments(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return drifts
}

func requireCheck(t *testing.T, m *memory, r CheckRequest) {
	t.Helper()
	if err := m.CheckUnknown(t.Context(), r); err != nil {
		t.Fatal(err)
	}
}

// TestCheckUnknown: plugins are asked as often as the request says, not by a repair that takes
// their last answer, and always by one that does not.
func TestCheckUnknown(t *testing.T) {
	m := unknownPlugins(t, func(string) error { return nil })
	last := RepairRequest{LastChecks: true}
	for _, step := range []struct {
		name string
		do   func()
		want int
	}{
		{"the last answers, without any", func() { requireRepair(t, m, last) }, 0},
		{"left out", func() { requireCheck(t, m, CheckRequest{Except: func(id string) bool { return id != "b" }}) }, 1},
		{"the one not asked", func() { requireCheck(t, m, CheckRequest{Every: time.Hour}) }, 1},
		{"too early", func() { requireCheck(t, m, CheckRequest{Every: time.Hour}) }, 0},
		{"the last answers", func() { requireRepair(t, m, last) }, 0},
		{"due", func() { requireCheck(t, m, CheckRequest{}) }, 2},
		{"asked", func() { requireRepair(t, m, RepairRequest{}) }, 2},
	} {
		step.do()
		if calls := m.exec.names(); len(calls) != step.want {
			t.Errorf("%s: %q, want %d", step.name, calls, step.want)
		}
	}
	o, err := m.env.Begin(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	defer o.End()
	if requireCheck(t, m, CheckRequest{}); len(m.exec.names()) != 1 {
		t.Error("plugins of an allocation were asked that another call is changing")
	}
}

// TestLastCheck: what plugins have said counts until they say something else, or the network is
// attached again. A repair tells of it once; a report is no repair.
func TestLastCheck(t *testing.T) {
	for name, test := range map[string]struct {
		err          error
		unrepairable bool
	}{
		"damage":       {&types.Error{Code: 999, Msg: "no route"}, true},
		"it is broken": {errors.New("exec format error"), false},
	} {
		t.Run(name, func(t *testing.T) {
			var answer error
			m := unknownPlugins(t, func(container string) error {
				if strings.HasPrefix(container, "a") {
					return answer
				}
				return nil
			})
			seen := &repairs{}
			m.env.Config.Observers = []Observer{seen}
			requireCheck(t, m, CheckRequest{}) // without that a failure proves nothing
			answer = test.err
			requireCheck(t, m, CheckRequest{})
			requireCheck(t, m, CheckRequest{}) // of damage, one is no proof
			for i, mode := range []RepairMode{RepairReport, RepairRules, RepairRules} {
				drifts := requireRepair(t, m, RepairRequest{Mode: mode, LastChecks: true})
				if len(drifts) != 1 || !drifts[0].Open() || drifts[0].Reported != (i == 2) || (len(drifts[0].Unrepairable) > 0) != test.unrepairable || len(*seen) != min(i, 1) {
					t.Errorf("repair %d: %+v, observed %+v", i, drifts, *seen)
				}
			}
			answer = nil
			if requireCheck(t, m, CheckRequest{}); len(requireRepair(t, m, RepairRequest{LastChecks: true})) > 0 {
				t.Error("the earlier answer counts")
			}
			answer = test.err
			requireCheck(t, m, CheckRequest{})
			if err := m.Teardown(t.Context(), "a"); err != nil {
				t.Fatal(err)
			}
			if _, err := m.Setup(t.Context(), Request{ID: "a", Primary: &selection.Element{Name: "web", Interface: "eth0"}}); err != nil {
				t.Fatal(err)
			}
			if drifts := requireRepair(t, m, RepairRequest{LastChecks: true}); len(drifts) > 0 {
				t.Errorf("%+v of an earlier attachment", drifts)
			}
		})
	}
}

// TestRepairAsksLast: when plugins that are unknown are asked, all else is repaired, and other
// allocations are not locked.
func TestRepairAsksLast(t *testing.T) {
	var m *memory
	asked := 0
	m = unknownPlugins(t, func(string) error {
		asked++
		o, err := m.env.TryBegin("b")
		if err != nil {
			return err
		}
		defer o.End()
		ns, err := o.Namespace()
		if err != nil {
			return err
		}
		defer ns.Close()
		present, err := ns.Interfaces()
		return errors.Join(err, inspect.Loopback(o.Record.Allocation, present))
	})
	path := filepath.Join(m.env.Config.NetnsDir, "b")
	m.namespaces.removeInterface(path, "eth0") // so that there is nothing to ask
	m.namespaces.add(path, netns.Interface{Name: "lo"})
	drifts := requireRepair(t, m, RepairRequest{})
	if asked != 1 || slices.ContainsFunc(drifts, func(d Drift) bool { return d.Allocation == "a" }) {
		t.Errorf("asked %d times, found %+v", asked, drifts)
	}
}
