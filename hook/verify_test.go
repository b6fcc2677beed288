// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/internal/fakecni"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/selection"
	"github.com/allocnet/allocnet/state"
)

// setUp puts an allocation of the test's own namespace on record, whose main
// interface is lo.
func setUp(t *testing.T, e *Engine, check fakecni.Behaviour, edit func(*state.Allocation, []state.Attachment)) {
	t.Helper()
	ns, err := e.env.Config.Namespaces.Open(ownNetns)
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	a := state.Allocation{ID: "a1", Mode: state.ModeSetup, Owner: "cni/multi/lo", Netns: ownNetns, NetnsID: ns.ID(), Digest: "x"}
	script := fakecni.Script{Log: filepath.Join(e.env.Config.NetnsDir, "calls"), Verbs: map[string]fakecni.Behaviour{"CHECK": check}}
	attachments := []state.Attachment{
		{Network: "n", Interface: "lo", ContainerID: "a1", Batch: onrecord.SetupBatch, Phase: state.Attached, ConfList: fakeList(t, "n", script), Status: json.RawMessage("{}"), CheckPassed: true},
		{Network: "m", Interface: "none0", Index: 1, Phase: state.Pending, Batch: state.Batch{Kind: state.BatchExtend, ID: "of a task"}, ConfList: fakeList(t, "m", script)},
	}
	if edit != nil {
		edit(&a, attachments)
	}
	lock, err := e.env.Store.Lock(t.Context(), a.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Unlock()
	if err := lock.Begin(a, attachments); err != nil {
		t.Fatal(err)
	}
}

func TestVerify(t *testing.T) {
	for name, test := range map[string]struct {
		check fakecni.Behaviour
		edit  func(*state.Allocation, []state.Attachment)
		want  string // of the error
		calls int    // of the plugin
	}{
		"sound":                {calls: 1},
		"hangs":                {check: fakecni.Behaviour{Hang: true}, calls: 1},
		"dies":                 {check: fakecni.Behaviour{Signal: 9}, calls: 1},
		"cannot tell":          {check: fakecni.Behaviour{Code: 11, Msg: "later"}, calls: 1},
		"wrong configuration":  {check: fakecni.Behaviour{Code: 7, Msg: "no such key"}, calls: 1},
		"damaged":              {check: fakecni.Behaviour{Code: 999, Msg: "no rule"}, want: "no rule", calls: 2},
		"never passed":         {check: fakecni.Behaviour{Code: 999, Msg: "no rule"}, calls: 1, edit: func(_ *state.Allocation, all []state.Attachment) { all[0].CheckPassed = false }},
		"lacks a program":      {check: fakecni.Behaviour{Code: 999, Msg: `failed to open iptables: exec: "iptables": executable file not found in $PATH`}, calls: 1},
		"lacks rights":         {check: fakecni.Behaviour{Code: 999, Msg: "iptables v1.8.9: Could not fetch rule set generation id: Permission denied (you must be root)"}, calls: 1},
		"damaged for a moment": {check: fakecni.Behaviour{Code: 999, Msg: "no rule", FailTimes: 1}, calls: 2},
		"plugin is missing": {edit: func(_ *state.Allocation, all []state.Attachment) {
			all[0].ConfList = json.RawMessage(`{"cniVersion": "1.0.0", "name": "n", "plugins": [{"type": "none"}]}`)
		}},
		"no conflist": {edit: func(_ *state.Allocation, all []state.Attachment) { all[0].ConfList = json.RawMessage(`{}`) }},
		"interface is gone": {want: "interface is gone", edit: func(_ *state.Allocation, all []state.Attachment) {
			all[0].Interface = "none1"
		}},
		"address is gone": {want: "address 192.0.2.1/24 is gone", edit: func(_ *state.Allocation, all []state.Attachment) {
			all[0].ConfList = json.RawMessage(`{"cniVersion": "1.0.0", "name": "n", "disableCheck": true, "plugins": [{"type": "fakecni"}]}`)
			all[0].Status = json.RawMessage(`{"configured": ["192.0.2.1/24"]}`)
		}},
		"address of no interface": {calls: 1, edit: func(_ *state.Allocation, all []state.Attachment) {
			all[0].Status = json.RawMessage(`{"addresses": ["192.0.2.1/24"]}`)
		}},
		"half torn down":     {want: `phase "pending"`, edit: func(_ *state.Allocation, all []state.Attachment) { all[0].Phase = state.Pending }},
		"another namespace":  {want: "another namespace", edit: func(a *state.Allocation, _ []state.Attachment) { a.NetnsID = "1" }},
		"of another runtime": {edit: func(a *state.Allocation, _ []state.Attachment) { a.Owner = "" }},
		"only others attached it": {edit: func(_ *state.Allocation, all []state.Attachment) {
			all[0].Batch = state.Batch{Kind: state.BatchExtend, ID: "of a task"}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			e := fakeEngine(t, func(c *Config) {
				if test.check.Hang {
					c.CallTimeout = time.Second
				}
			})
			e.env.Config.Pause = func(context.Context, time.Duration) error { return nil }
			if test.check.FailTimes > 0 {
				test.check.Counter = filepath.Join(t.TempDir(), "counter")
			}
			setUp(t, e, test.check, test.edit)
			err := e.Verify(t.Context(), Verification{ID: "a1", Owner: "cni/multi/lo", Netns: ownNetns, Interface: "lo"})
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
			log, _ := os.ReadFile(filepath.Join(e.env.Config.NetnsDir, "calls")) // none without a call
			if calls := strings.Count(string(log), "CHECK lo"); calls != test.calls || strings.Contains(string(log), "none0") {
				t.Errorf("want %d CHECKs of lo alone:\n%s", test.calls, log)
			}
			if left, _ := filepath.Glob(e.env.Config.CacheDir + "/*"); left != nil {
				t.Errorf("libcni's cache was written: %v", left)
			}
		})
	}
}

// TestVerifyDoesNotWait for an allocation that is locked.
func TestVerifyDoesNotWait(t *testing.T) {
	e := fakeEngine(t, nil)
	e.env.Config.Pause = func(context.Context, time.Duration) error { return nil }
	setUp(t, e, fakecni.Behaviour{Code: 999, Msg: "no rule"}, nil)
	lock, err := e.env.Store.Lock(t.Context(), "a1")
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Unlock()
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	if err := e.Verify(ctx, Verification{ID: "a1", Owner: "cni/multi/lo", Netns: ownNetns, Interface: "lo"}); err != nil || ctx.Err() != nil {
		t.Errorf("%v, %v", err, ctx.Err())
	}
}

// TestVerifyUnrecorded: without a record only the interface tells.
func TestVerifyUnrecorded(t *testing.T) {
	e := fakeEngine(t, nil)
	e.env.Config.Pause = func(context.Context, time.Duration) error { return nil }
	for _, test := range []struct{ netns, iface, want string }{
		{ownNetns, "lo", ""},
		{ownNetns, "none0", "has no interface none0"},
		{t.TempDir() + "/gone", "lo", "gone"},
	} {
		err := e.Verify(t.Context(), Verification{ID: "a1", Owner: "x", Netns: test.netns, Interface: test.iface})
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s in %s: %v, want %q", test.iface, test.netns, err, test.want)
		}
	}
}

// TestVerifyDamagedRecord: what a damaged record leaves open about an attachment is
// unknown, and the rest of the record still tells of damage.
func TestVerifyDamagedRecord(t *testing.T) {
	for name, test := range map[string]struct {
		phase state.Phase
		iface string
		want  string
	}{
		"a lost line may have said that it was attached": {state.Adding, "lo", ""},
		"attached, and gone":                             {state.Attached, "none1", "interface is gone"},
	} {
		t.Run(name, func(t *testing.T) {
			e := fakeEngine(t, nil)
			e.env.Config.Pause = func(context.Context, time.Duration) error { return nil }
			setUp(t, e, fakecni.Behaviour{}, func(_ *state.Allocation, all []state.Attachment) {
				all[0].Phase, all[0].Interface = test.phase, test.iface
			})
			appendLine(t, filepath.Join(e.env.Config.StateDir, "allocations", "a1", "journal"), "spoiled\n")
			err := e.Verify(t.Context(), Verification{ID: "a1", Owner: "cni/multi/lo", Netns: ownNetns, Interface: "lo"})
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func appendLine(t *testing.T, path, line string) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteString(line); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestVerifyRecordChanges while a plugin looks: what it reports may be the change.
func TestVerifyRecordChanges(t *testing.T) {
	e := fakeEngine(t, nil)
	e.env.Config.Pause = func(context.Context, time.Duration) error { return nil }
	dir := t.TempDir()
	begun, release := filepath.Join(dir, "begun"), filepath.Join(dir, "release")
	setUp(t, e, fakecni.Behaviour{Code: 999, Msg: "no rule", Mark: begun, Await: release}, nil)
	done := make(chan error, 1)
	v := Verification{ID: "a1", Owner: "cni/multi/lo", Netns: ownNetns, Interface: "lo"}
	look := func() error { return e.Verify(t.Context(), v) }
	go func() { done <- look() }()
	for {
		if _, err := os.Stat(begun); err == nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	lock, err := e.env.Store.Lock(t.Context(), "a1")
	if err != nil {
		t.Fatal(err)
	}
	if err := lock.Delete("none0"); err != nil {
		t.Fatal(err)
	}
	lock.Unlock()
	if err := os.WriteFile(release, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Errorf("damage that nothing proves: %v", err)
	}
	if err := look(); err == nil {
		t.Error("without a change it is no damage")
	}
}

// TestVerifyLeavesTimeForTheSecondLook, although the first look sees damage only
// when its time is over.
func TestVerifyLeavesTimeForTheSecondLook(t *testing.T) {
	e := fakeEngine(t, nil)
	setUp(t, e, fakecni.Behaviour{Hang: true}, func(_ *state.Allocation, all []state.Attachment) {
		gone := all[0]
		gone.Interface, gone.Index = "none1", 2
		all[1] = gone
	})
	ctx, stop := context.WithTimeout(t.Context(), time.Second)
	defer stop()
	e.env.Config.Pause = func(context.Context, time.Duration) error { return ctx.Err() }
	err := e.Verify(ctx, Verification{ID: "a1", Owner: "cni/multi/lo", Netns: ownNetns, Interface: "lo"})
	if err == nil || !strings.Contains(err.Error(), "interface is gone") {
		t.Errorf("got %v", err)
	}
}

// TestVerifyRecordsThatCheckHasPassed: then a failure proves damage, and not before.
func TestVerifyRecordsThatCheckHasPassed(t *testing.T) {
	errNoRoute := &types.Error{Code: 999, Msg: "no route"}
	for name, test := range map[string]struct {
		answers []error
		want    string // of the last error
	}{
		"never":                    {[]error{errNoRoute, errNoRoute, errNoRoute}, ""},
		"passed, then failed":      {[]error{nil, errNoRoute, errNoRoute}, "no route"},
		"passed, then failed once": {[]error{nil, errNoRoute, nil}, ""},
		"failed, passed, failed":   {[]error{errNoRoute, nil, errNoRoute, errNoRoute}, "no route"},
	} {
		t.Run(name, func(t *testing.T) {
			answers := test.answers
			m := unknownPlugins(t, func(container string) error {
				if !strings.HasPrefix(container, "a") {
					return nil
				}
				answer := answers[0]
				answers = answers[1:]
				return answer
			})
			a, err := m.Status(t.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			for len(answers) > 0 {
				err = m.Verify(t.Context(), Verification{ID: "a", Netns: a.Netns, Interface: "eth0"})
			}
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}

// TestVerifyMoved: CHECK passes if something proves that a task has moved the interface, as into a virtual machine or a
// container of its own: Nomad would end the tasks. Without a proof it is gone. All that compare say the same.
func TestVerifyMoved(t *testing.T) {
	const path = "/run/netns/w1"
	for name, test := range map[string]struct {
		now   []netns.Interface
		links map[string]bool
		want  string
	}{
		"gone":                  {want: "interface is gone"},
		"renamed":               {now: []netns.Interface{{Name: "lan", MAC: "02:00:00:00:00:01", Up: true}}},
		"to another one's MAC":  {now: []netns.Interface{{Name: "tap0", MAC: "02:00:00:00:00:09", Up: true}}, want: "interface is gone"},
		"in a container in it":  {links: map[string]bool{"veth1": true}},
		"behind a bridge":       {now: []netns.Interface{{Name: "nic0", MAC: "02:00:00:00:00:01", Up: true}, {Name: "eth0", Kind: "bridge", MAC: "02:00:00:00:00:08", Up: true}}},
		"replaced":              {now: []netns.Interface{{Name: "nic0", MAC: "02:00:00:00:00:01", Up: true}, {Name: "eth0", Kind: "veth", MAC: "02:00:00:00:00:08", Up: true}}, want: "MAC is 02:00:00:00:00:08"},
		"the end is of another": {links: map[string]bool{"veth2": true}, want: "interface is gone"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMemory(t, nil)
			m.exec.answer = func(_ context.Context, c fakeCall) (bool, []byte, error) {
				if c.Verb == "ADD" {
					m.namespaces.add(path, netns.Interface{Name: "eth0", MAC: "02:00:00:00:00:01", Up: true, LinkOutside: true})
				}
				return c.Verb == "ADD", []byte(`{"cniVersion": "1.0.0", "interfaces": [{"name": "veth1", "mac": "02:00:00:00:00:02"}, {"name": "eth0", "mac": "02:00:00:00:00:01", "sandbox": "/x"}]}`), nil
			}
			m.network(t, "a", "x")
			m.namespaces.create(path)
			request := Request{ID: "w1", Netns: path, Owner: "cni/multi/eth0", Primary: &selection.Element{Name: "a", Interface: "eth0"}}
			a, err := m.Setup(t.Context(), request)
			if err != nil {
				t.Fatal(err)
			}
			m.namespaces.removeInterface(path, "eth0")
			for _, i := range test.now {
				m.namespaces.add(path, i)
			}
			m.host.links = test.links
			err = m.Verify(t.Context(), Verification{ID: "w1", Owner: "cni/multi/eth0", Netns: path, Interface: "eth0"})
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
			requireMoved(t, m, a, test.want)
		})
	}
}

// requireMoved requires that the interface of w1 is said to be moved by all that compare it, or broken as wanted.
func requireMoved(t *testing.T, m *memory, a *Allocation, broken string) {
	t.Helper()
	checked, _ := m.Check(t.Context(), "w1")
	inspected, _ := m.Inspect(t.Context(), "w1")
	for _, c := range append(checked, inspected...) {
		if (c.Err != nil) != (broken != "") || c.Err != nil && (!strings.Contains(c.Err.Error(), broken) || c.Unknown) || c.Err == nil && !strings.Contains(c.Skipped, "a task has moved it") {
			t.Errorf("Check or Inspect: %+v, want %q", c, broken)
		}
	}
	for _, mode := range []RepairMode{RepairReport, RepairRules} {
		drifts := requireRepair(t, m, RepairRequest{Mode: mode})
		if len(drifts) != 1 || drifts[0].Open() != (broken != "") || len(drifts[0].Unrepairable) > 0 != (broken != "") || drifts[0].Err != nil {
			t.Errorf("%s: %+v, want %q", mode, drifts, broken)
		}
	}
	if now := m.Current(a).Attachments[0]; (now.Phase == Missing) != (broken == "interface is gone") {
		t.Errorf("Current: %+v, want %q", now, broken)
	}
	if len(checked) != 1 || len(inspected) != 1 {
		t.Errorf("Check: %+v, Inspect: %+v", checked, inspected)
	}
}
