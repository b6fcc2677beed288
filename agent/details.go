// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"
	"net/http"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/hook"
)

// detailer knows what attachments have on the host.
type detailer interface {
	Details(ctx context.Context, id string) ([]hook.Details, error)
}

func (a *Agent) getDetails(r *http.Request) (any, error) {
	if err := readNothing(r); err != nil {
		return nil, err
	}
	engine, ok := a.engine.(detailer)
	if !ok {
		return nil, unsupported("the networks of this agent's host are managed elsewhere")
	}
	all, err := engine.Details(r.Context(), r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	wire := &api.Details{Attachments: []api.AttachmentDetails{}}
	for _, d := range all {
		wire.Attachments = append(wire.Attachments, wireDetails(d))
	}
	return wire, nil
}

func wireDetails(d hook.Details) api.AttachmentDetails {
	wire := api.AttachmentDetails{
		Network: d.Network, Interface: d.Interface, ContainerID: d.ContainerID, Executor: string(d.Executor), CNIVersion: d.CNIVersion, Plugins: d.Plugins,
		Updated: d.Updated, RulesError: d.RulesError,
	}
	for _, r := range d.Rules {
		wire.Rules = append(wire.Rules, api.Rule(r))
	}
	for _, l := range d.Leases {
		wire.Leases = append(wire.Leases, api.Lease(l))
	}
	return wire
}
