// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniplugin

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"

	"github.com/allocnet/allocnet/cniplugin/shim"
	"github.com/allocnet/allocnet/internal/roottest"
	"github.com/allocnet/allocnet/state"
)

// delegating returns a request of a configuration that delegates calls, which the agent has not carried out.
func delegating(t *testing.T, command, mode string, refusal *shim.Refusal) *request {
	t.Helper()
	c := testCall(command)
	c.Refusal = refusal
	r, err := c.newRequest(t.Context(), &skel.CmdArgs{ContainerID: "a1", IfName: "eth0", StdinData: fmt.Appendf(nil,
		`{"cniVersion": "1.0.0", "name": "multi", "type": "allocnet-cni", "primary": "web", "timeout": "1h", "stateDir": %q, "agent": {"mode": %q}}`, t.TempDir(), mode)}, true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.close)
	return r
}

// TestCarryOut: a verb runs without the agent, except where that is required.
func TestCarryOut(t *testing.T) {
	ran := errors.New("the verb ran")
	gone := &shim.Refusal{Reason: "it is gone"}
	for _, test := range []struct {
		command, mode string
		refusal       *shim.Refusal
		code          uint // 0: the verb runs
	}{
		{"ADD", prefer, nil, 0}, {"ADD", shim.Require, nil, 0},
		{"ADD", prefer, gone, 0}, {"STATUS", prefer, gone, 0}, {"DEL", shim.Require, gone, 0}, {"GC", shim.Require, gone, 0},
		{"ADD", shim.Require, gone, types.ErrTryAgainLater}, {"STATUS", shim.Require, gone, types.ErrTryAgainLater},
		{"ADD", prefer, &shim.Refusal{Reason: "it hung", Seconds: 3600}, types.ErrTryAgainLater},
	} {
		r := delegating(t, test.command, test.mode, test.refusal)
		err := r.carryOut(func(*request) error { return ran })
		if test.code == 0 {
			if !errors.Is(err, ran) {
				t.Errorf("%s %s: %v, want that the verb runs", test.command, test.mode, err)
			}
			continue
		}
		requireError(t, err, test.code)
	}
}

// TestBegun: an agent that ends while it has a call may have attached the container. The plugin then takes
// what is set up as it would; without an agent that is an error. The time that has gone by is the call's.
func TestBegun(t *testing.T) {
	for _, begun := range []bool{false, true} {
		r := delegating(t, "ADD", prefer, &shim.Refusal{Begun: begun, Seconds: 1800})
		s, err := r.setup()
		if deadline, _ := r.ctx.Deadline(); err != nil || s.Fresh == begun || time.Until(deadline) > 31*time.Minute {
			t.Errorf("begun is %t: fresh is %t, %s left, %v", begun, s.Fresh, time.Until(deadline), err)
		}
	}
}

// TestRootUndo: with an agent that is required and was killed, what it has begun to attach is removed, and nothing
// that is attached or another's.
func TestRootUndo(t *testing.T) {
	roottest.Require(t)
	for name, test := range map[string]struct {
		command, owner string
		begun          bool
		phases         []state.Phase
		left           bool
	}{
		"begun":             {"ADD", "cni/multi/eth0", true, []state.Phase{state.Adding, state.Adding}, false},
		"not begun":         {"ADD", "cni/multi/eth0", false, []state.Phase{state.Adding}, true},
		"attached":          {"ADD", "cni/multi/eth0", true, []state.Phase{state.Attached, state.Adding}, true},
		"of another":        {"ADD", "cni/multi/eth1", true, []state.Phase{state.Adding}, true},
		"of another caller": {"STATUS", "cni/multi/eth0", true, []state.Phase{state.Adding}, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := delegating(t, test.command, shim.Require, &shim.Refusal{Reason: "it is gone", Begun: test.begun})
			store, err := state.Open(r.conf.StateDir)
			if err != nil {
				t.Fatal(err)
			}
			l, err := store.Lock(t.Context(), "a1")
			if err != nil {
				t.Fatal(err)
			}
			var attachments []state.Attachment
			for i, phase := range test.phases {
				attachments = append(attachments, state.Attachment{Network: "web", Interface: fmt.Sprint("eth", i), ContainerID: "a1", Phase: phase, Batch: state.Batch{Kind: state.BatchSetup}})
			}
			err = l.Begin(state.Allocation{ID: "a1", Mode: state.ModeSetup, Owner: test.owner}, attachments)
			l.Unlock()
			if err != nil {
				t.Fatal(err)
			}
			requireError(t, r.carryOut(func(*request) error { return nil }), types.ErrTryAgainLater, "it is gone")
			if _, err := store.Read("a1"); errors.Is(err, state.ErrNotFound) == test.left {
				t.Errorf("the record: %v, want it left: %t", err, test.left)
			}
		})
	}
}
