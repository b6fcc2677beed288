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

// setupBody is api.Setup with its selections checked, and the engine's types.
type setupBody struct {
	api.Setup
	Identity policy.Identity `json:"identity"`
	Primary  networks        `json:"primary"`
	Networks networks        `json:"networks"`
	Ports    []portmap.Port  `json:"ports"`
	Ingress  *string         `json:"ingress"`
	Egress   *string         `json:"egress"`
}

func (b *setupBody) request(id string) (hook.Request, error) {
	r := hook.Request{ID: id, Netns: b.Netns, Identity: b.Identity, Networks: b.Networks, Ports: b.Ports, Args: b.Args}
	switch len(b.Primary) {
	case 0:
	case 1:
		r.Primary = &b.Primary[0]
	default:
		return r, &hook.RequestError{Field: "primary", Value: b.Primary[1].Name, Reason: "want one network; further ones belong to \"networks\""}
	}
	return r, r.Narrow(b.Ingress, b.Egress)
}

// attachBody is api.Attach with its selection checked.
type attachBody struct {
	api.Attach
	Networks networks `json:"networks"`
}

// wireAllocation is an allocation as clients get it: as the engine has it, and its attachments are a list.
func wireAllocation(a *hook.Allocation, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	if a.Attachments == nil {
		with := *a
		with.Attachments = []hook.Attachment{}
		a = &with
	}
	return a, nil
}
