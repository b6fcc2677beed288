// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package api has the wire types of the agent: HTTP and JSON on a unix socket,
// described in openapi.json. Paths begin with the version, except those that
// every daemon has (healthz, readyz, metrics).
package api

import (
	_ "embed" // for Description
	"encoding/json"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/policy"
	"github.com/allocnet/allocnet/portmap"
	"github.com/allocnet/allocnet/selection"
)

// DefaultSocket is where the agent listens when nothing else is said.
const DefaultSocket = "/run/allocnet/agent.sock"

// Paths of the API.
const (
	PathCNI         = "/v1/cni"
	PathDelegate    = "/v1/delegate"
	PathAllocations = "/v1/allocations"
	PathAllocation  = "/v1/allocations/{id}"
	PathNetworks    = "/v1/networks"
	PathGC          = "/v1/gc"
	PathDescription = "/v1/openapi.json"
	PathHealth      = "/healthz"
	PathReady       = "/readyz"
	PathMetrics     = "/metrics"
)

// Description is the API in OpenAPI 3.
//
//go:embed openapi.json
var Description []byte

// CNI is the body of POST /v1/cni: a call as a CNI runtime makes it.
type CNI struct {
	// Env has the parameters of the CNI specification, section 3: CNI_COMMAND,
	// CNI_CONTAINERID and so on. Other variables are refused.
	Env map[string]string `json:"env"`
	// Config is what a plugin gets on stdin.
	Config json.RawMessage `json:"config"`
}

// Setup is the body of PUT /v1/allocations/{id}: what the allocation shall have.
type Setup struct {
	// Netns is the path of the allocation's network namespace. Empty: one is
	// made, and removed with the allocation.
	Netns string `json:"netns,omitempty"`
	// Identity is whose the allocation is, for the rules of the networks. Empty:
	// nobody's.
	Identity policy.Identity `json:"identity,omitzero"`
	// Primary selects the main network, one at most. Empty: the namespace has
	// one already.
	Primary Selection `json:"primary,omitempty"`
	// Networks selects the extra networks.
	Networks Selection `json:"networks,omitempty"`
	// Ports are the allocation's.
	Ports []portmap.Port `json:"ports,omitempty"`
	// Args are handed to every plugin as CNI_ARGS.
	Args map[string]string `json:"args,omitempty"`
}

// Commands of a Delegate.
const (
	Add = "ADD"
	Del = "DEL"
)

// Delegate is the body of POST /v1/delegate: one attachment more, or one less,
// for an allocation that is set up.
type Delegate struct {
	// Command is Add or Del.
	Command string `json:"command"`
	// Allocation is the ID.
	Allocation string `json:"allocation"`
	// Networks selects what Add attaches.
	Networks Selection `json:"networks,omitempty"`
	// Interface is what Del detaches.
	Interface string `json:"interface,omitempty"`
}

// Networks is what the conf directory offers.
type Networks struct {
	Networks []Network `json:"networks"`
	// Broken says of each file that cannot be used why.
	Broken []string `json:"broken"`
}

// Network is a network of the conf directory.
type Network struct {
	Name         string   `json:"name"`
	Path         string   `json:"path"`
	CNIVersion   string   `json:"cniVersion"`
	Plugins      []string `json:"plugins"`
	Capabilities []string `json:"capabilities"`
	// Problem says why it cannot be attached now; empty when it can.
	Problem string `json:"problem,omitempty"`
}

// Health is the answer of healthz and readyz. What keeps the agent from being
// ready is an Error.
type Health struct {
	Status string `json:"status"`
}

// Collected is the answer of POST /v1/gc.
type Collected = hook.Collected

// Allocation is an allocation as recorded.
type Allocation = hook.Allocation

// Selection is a list of networks. In JSON it is a list of selection elements,
// one element, or a string in the short form of `--networks`. Reading it checks
// it as selection.Parse does; the error is a *selection.Error.
type Selection []selection.Element

// UnmarshalJSON reads any of the three forms.
func (s *Selection) UnmarshalJSON(data []byte) error {
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
	*s = elements
	return err
}
