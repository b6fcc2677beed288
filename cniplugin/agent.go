// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniplugin

import (
	"context"
	"slices"

	"github.com/containernetworking/cni/pkg/types"
)

// agentConf has calls delegated to the agent.
type agentConf struct {
	// Socket of the agent. Empty: api.DefaultSocket.
	Socket string `json:"socket"`
	// Mode is prefer or require. Empty: prefer.
	Mode string `json:"mode"`
	// JobNetworks is whether jobs select networks that only the agent reads: one that does
	// not read them refuses. Requires the mode require.
	JobNetworks bool `json:"jobNetworks"`
}

const (
	// prefer has the plugin handle a call that the agent does not handle.
	prefer = "prefer"
	// require makes such a call fail, unless it is one of agentless.
	require = "require"
)

// agentless are the verbs that work from the record, and never require the agent: Nomad
// calls DEL once, and then deletes the namespace.
var agentless = []string{"DEL", "GC"}

// carryOut runs a verb, unless the agent should have done that and is required.
func (r *request) carryOut(verb func(*request) error) error {
	switch {
	case r.refusal == nil:
		return verb(r)
	case r.conf.Agent.Mode == require && !slices.Contains(agentless, r.command):
		return refuse(types.ErrTryAgainLater, "the agent is required: "+r.refusal.Reason)
	case r.ctx.Err() != nil:
		return context.Cause(r.ctx)
	}
	// The record has the attachments that the agent began. It is locked while the
	// agent, or a plugin that it started, still runs.
	r.log.Warn("continuing without the agent", "error", r.refusal.Reason)
	return verb(r)
}
