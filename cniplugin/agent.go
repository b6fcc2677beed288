// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniplugin

import (
	"context"
	"errors"
	"slices"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/allocnet/allocnet/cniplugin/shim"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/state"
)

type agentConf struct {
	// Socket of the agent. Empty: api.DefaultSocket.
	Socket string `json:"socket"`
	// Mode is prefer or require. Empty: prefer.
	Mode string `json:"mode"`
	// JobNetworks is whether jobs select networks that only the agent reads: one that does
	// not read them refuses. Requires the mode require.
	JobNetworks bool `json:"jobNetworks"`
}

// prefer is the mode in which the plugin handles a call that the agent does not handle; the other one is shim.Require.
const prefer = "prefer"

// carryOut runs a verb, unless the agent should have done that and is required.
func (r *request) carryOut(verb func(*request) error) error {
	switch {
	case r.refusal == nil:
		return verb(r)
	case shim.Requires(r.conf.Agent.Mode, r.command):
		return errors.Join(refuse(types.ErrTryAgainLater, "the agent is required: "+r.refusal.Reason), r.undo())
	case r.ctx.Err() != nil:
		return context.Cause(r.ctx)
	}
	// The record has the attachments that the agent began. It is locked while the
	// agent, or a plugin that it started, still runs.
	r.log.Warn("continuing without the agent", "error", r.refusal.Reason)
	return verb(r)
}

// undo removes what the agent has begun to attach, and has not undone because it was killed. It leaves what
// is attached: that may be of an earlier ADD.
func (r *request) undo() error {
	if !r.refusal.Begun || r.command != "ADD" || r.ctx.Err() != nil {
		return nil
	}
	a, err := r.engine.Status(r.ctx, r.args.ContainerID)
	if errors.Is(err, state.ErrNotFound) {
		return nil
	}
	if err != nil || a.Owner != r.owner() || slices.ContainsFunc(a.Attachments, func(a hook.Attachment) bool { return a.Phase != state.Adding }) {
		return err
	}
	return r.engine.Teardown(r.ctx, a.ID)
}
