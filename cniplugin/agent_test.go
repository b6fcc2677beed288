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
		{"ADD", prefer, nil, 0}, {"ADD", require, nil, 0},
		{"ADD", prefer, gone, 0}, {"STATUS", prefer, gone, 0}, {"DEL", require, gone, 0}, {"GC", require, gone, 0},
		{"ADD", require, gone, types.ErrTryAgainLater}, {"STATUS", require, gone, types.ErrTryAgainLater},
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
