// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"encoding/json"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/policy"
	"github.com/allocnet/allocnet/portmap"
	"github.com/allocnet/allocnet/selection"
)

// networks reads an api.Selection in any of its three forms, and checks it: the
// error is a *selection.Error.
type networks []selection.Element

func (n *networks) UnmarshalJSON(data []byte) error {
	text := string(data)
	switch {
	case text == "null":
		return nil
	case len(data) > 0 && data[0] == '"':
		if err := json.Unmarshal(data, &text); err != nil {
			return err
		}
	}
	elements, err := selection.Parse(text)
	*n = elements
	return err
}

// setupBody is api.Setup with its selections checked.
type setupBody struct {
	api.Setup
	Primary  networks `json:"primary"`
	Networks networks `json:"networks"`
}

func (b *setupBody) request(id string) (hook.Request, error) {
	r := hook.Request{ID: id, Netns: b.Netns, Identity: policy.Identity(b.Identity), Networks: b.Networks, Args: b.Args}
	for _, port := range b.Ports {
		r.Ports = append(r.Ports, portmap.Port(port))
	}
	switch len(b.Primary) {
	case 0:
	case 1:
		r.Primary = &b.Primary[0]
	default:
		return r, &hook.RequestError{Field: "primary", Value: b.Primary[1].Name, Reason: "want one network; further ones belong to \"networks\""}
	}
	return r, nil
}

// attachBody is api.Attach with its selection checked.
type attachBody struct {
	api.Attach
	Networks networks `json:"networks"`
}

// wireAllocation returns an allocation as clients get it.
func wireAllocation(a *hook.Allocation) *api.Allocation {
	wire := &api.Allocation{
		ID: a.ID, Identity: api.Identity(a.Identity), Owner: a.Owner, Netns: a.Netns, Attachments: []api.Attachment{},
		DNSSelection: a.DNSSelection, DNS: api.DNS(a.DNS), ResolvConf: a.ResolvConf, Created: a.Created, Damaged: a.Damaged, Error: a.Error,
	}
	for _, attachment := range a.Attachments {
		wire.Attachments = append(wire.Attachments, wireAttachment(attachment))
	}
	return wire
}

func wireAttachment(a hook.Attachment) api.Attachment {
	wire := api.Attachment{
		Network: a.Network, Interface: a.Interface, Primary: a.Primary, Task: a.Task, Phase: api.Phase(a.Phase), Missing: a.Missing,
		Addresses: a.Addresses, MAC: a.MAC, MTU: a.MTU, Gateways: a.Gateways, DNS: api.DNS(a.DNS),
		Attempts: a.Attempts, Error: a.Error, Created: a.Created, Result: a.Result,
	}
	for _, port := range a.Ports {
		wire.Ports = append(wire.Ports, api.MappedPort(port))
	}
	return wire
}

// wireResult returns what an operation of the engine ended with.
func wireResult(a *hook.Allocation, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return wireAllocation(a), nil
}

func wireCollected(c *hook.Collected) *api.Collected {
	return &api.Collected{
		TornDown: append([]string{}, c.TornDown...), Networks: append([]string{}, c.Networks...),
		Skipped: c.Skipped, Postponed: c.Postponed,
	}
}
