// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniplugin

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/agent/client"
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

// dispatch delegates the call to the agent if the plugin configuration says so,
// and otherwise runs the verb in this process.
func (r *request) dispatch(verb func(*request) error) error {
	if r.conf.Agent == nil {
		return verb(r)
	}
	optional := r.conf.Agent.Mode != require || slices.Contains(agentless, r.command)
	result, err := r.delegate(optional)
	var failed *api.Error
	switch {
	case err == nil:
		_, err = r.printed.Write(result)
		return err
	case errors.As(err, &failed) && !unhandled(failed):
		return types.NewError(failed.Code, failed.Msg, failed.Details)
	case !optional:
		return types.NewError(types.ErrTryAgainLater, "the agent is required: "+err.Error(), "")
	case r.ctx.Err() != nil:
		return err
	}
	// The record has the attachments that the agent began. It is locked while the
	// agent, or a plugin that it started, still runs.
	r.log.Warn("continuing without the agent", "error", err)
	return verb(r)
}

// delegate has the agent execute the call. One that the plugin may execute without the agent does not wait for
// an agent that hangs: it would have no time left.
func (r *request) delegate(optional bool) ([]byte, error) {
	agent := client.New(r.conf.Agent.Socket)
	var answered *api.Error
	if optional {
		if err := r.healthy(agent); err != nil && !errors.As(err, &answered) {
			return nil, err
		}
	}
	result, err := agent.CNI(r.ctx, r.environment(), r.args.StdinData)
	r.unanswered = err != nil && !errors.As(err, &answered)
	return result, err
}

// patience is how long an agent may take to say that it is there. It does so while it is busy, too.
const patience = 10 * time.Second

func (r *request) healthy(agent *client.Client) error {
	limit := patience
	if deadline, ok := r.ctx.Deadline(); ok {
		limit = min(limit, time.Until(deadline)/6)
	}
	ctx, stop := context.WithTimeout(r.ctx, limit)
	defer stop()
	return agent.Healthy(ctx)
}

// unhandled reports whether the agent did nothing: it is stopping, is overloaded,
// denies the caller access, or has no plugin.
func unhandled(e *api.Error) bool {
	return slices.Contains([]int{http.StatusServiceUnavailable, http.StatusNotImplemented, http.StatusForbidden}, e.Status)
}

// environment returns the CNI variables that skel read.
func (r *request) environment() map[string]string {
	env := map[string]string{
		"CNI_COMMAND": r.command, "CNI_CONTAINERID": r.args.ContainerID, "CNI_NETNS": r.args.Netns,
		"CNI_IFNAME": r.args.IfName, "CNI_ARGS": r.args.Args, "CNI_PATH": r.args.Path,
	}
	if r.args.NetnsOverride != "" {
		env["CNI_NETNS_OVERRIDE"] = r.args.NetnsOverride
	}
	return env
}
