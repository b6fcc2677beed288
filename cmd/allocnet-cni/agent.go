// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"errors"
	"os"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/agent/client"
)

// agentConf says that calls are carried out by the agent.
type agentConf struct {
	// Socket is the agent's. Empty: api.DefaultSocket.
	Socket string `json:"socket"`
	// Mode is prefer, which is the default, or require.
	Mode string `json:"mode"`
}

const (
	// prefer does the work itself when the agent does not.
	prefer = "prefer"
	// require fails then.
	require = "require"
)

// carryOut has the agent do the work where the entry says so.
func (r *request) carryOut(verb func(*request) error) error {
	if r.conf.Agent == nil {
		return verb(r)
	}
	result, err := client.New(r.conf.Agent.Socket).CNI(r.ctx, r.environment(), r.args.StdinData)
	var failed *api.Error
	switch {
	case err == nil:
		_, err = os.Stdout.Write(result)
		return err
	case errors.As(err, &failed) && !unserved(failed):
		return types.NewError(failed.Code, failed.Msg, failed.Details)
	case r.conf.Agent.Mode == require:
		return types.NewError(types.ErrTryAgainLater, "the agent is required: "+err.Error(), "")
	case r.ctx.Err() != nil:
		return err
	}
	// Whatever the agent began is on record, and the record is locked while
	// it, or a plugin that it left behind, is at work.
	r.log.Warn("going on without the agent", "error", err)
	return verb(r)
}

// unserved tells whether the agent did nothing: it is stopping, has too much
// to do, does not know the caller, or has no plugin.
func unserved(e *api.Error) bool {
	return e.Status == 503 || e.Status == 501 || e.Status == 403
}

// environment is what skel read.
func (r *request) environment() map[string]string {
	env := map[string]string{
		"CNI_COMMAND": os.Getenv("CNI_COMMAND"), "CNI_CONTAINERID": r.args.ContainerID, "CNI_NETNS": r.args.Netns,
		"CNI_IFNAME": r.args.IfName, "CNI_ARGS": r.args.Args, "CNI_PATH": r.args.Path,
	}
	if r.args.NetnsOverride != "" {
		env["CNI_NETNS_OVERRIDE"] = r.args.NetnsOverride
	}
	return env
}
