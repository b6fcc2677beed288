// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package api has the wire types of the agent: HTTP and JSON on a unix socket,
// described in openapi.json. Paths begin with the version, except those that
// every daemon has (healthz, readyz, metrics). A client links neither the engine nor
// netlink.
package api

import (
	_ "embed" // for Description
	"encoding/json"
	"net/netip"

	"github.com/allocnet/allocnet/allocation"
)

// DefaultSocket is the path of the socket unless configured.
const DefaultSocket = "/run/allocnet/agent.sock"

// Paths of the API.
const (
	PathCNI         = "/v1/cni"
	PathAllocations = "/v1/allocations"
	PathAllocation  = "/v1/allocations/{id}"
	PathDetails     = "/v1/allocations/{id}/details"
	PathAttachments = "/v1/allocations/{id}/attachments"
	PathAttachment  = "/v1/allocations/{id}/attachments/{interface}"
	PathNetworks    = "/v1/networks"
	PathPools       = "/v1/pools"
	PathCluster     = "/v1/cluster"
	PathRepair      = "/v1/repair"
	PathLeaks       = "/v1/leaks"
	PathDenied      = "/v1/denied"
	PathMap         = "/v1/map"
	PathEvents      = "/v1/events"
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

// HeaderBuild has CNI.Build.
const HeaderBuild = "Allocnet-Build"

// CNI is the body of POST /v1/cni: a call as a CNI runtime makes it.
type CNI struct {
	// Env has the parameters of the CNI specification, section 3: CNI_COMMAND,
	// CNI_CONTAINERID and so on. Other variables are refused.
	Env map[string]string `json:"env"`
	// Config is what a plugin gets on stdin.
	Config json.RawMessage `json:"config"`
	// Build is the caller's, in HeaderBuild: older agents refuse a key that they do not know. The call of
	// another build than the agent's is carried out by the plugin that is installed. Empty: what the agent
	// does is right.
	Build string `json:"-"`
}

// Setup is the body of PUT /v1/allocations/{id}: the networks and ports of an
// allocation.
type Setup struct {
	// Netns is the path of the allocation's network namespace. Empty: the agent
	// creates one, and removes it with the allocation.
	Netns string `json:"netns,omitempty"`
	// Identity is matched against the rules of the networks, and passed to every plugin
	// if namespace, job and group are known. Empty: unknown.
	Identity allocation.Identity `json:"identity,omitzero"`
	// Primary selects the main network, one at most. Empty: the namespace has
	// its main network already.
	Primary Selection `json:"primary,omitempty"`
	// Networks selects the extra networks.
	Networks Selection `json:"networks,omitempty"`
	// Ports are the allocation's.
	Ports []Port `json:"ports,omitempty"`
	// Args are passed to every plugin as CNI_ARGS.
	Args map[string]string `json:"args,omitempty"`
	// Ingress and Egress are what is left of what may reach the allocation, and of what it may reach, which each of its networks has to permit.
	// Absent: all; an empty text is refused.
	Ingress string `json:"ingress,omitempty"`
	Egress  string `json:"egress,omitempty"`
}

// Attach is the body of POST /v1/allocations/{id}/attachments: further networks
// of an allocation that is set up.
type Attach struct {
	// Networks selects the networks. Required.
	Networks Selection `json:"networks"`
}

// Networks are those of the CNI configuration directories.
type Networks struct {
	Networks []Network `json:"networks"`
	// Broken has an error for each file that cannot be used.
	Broken []string `json:"broken"`
}

// Network is one network of the CNI configuration directories.
type Network struct {
	Name         string   `json:"name"`
	Path         string   `json:"path"`
	CNIVersion   string   `json:"cniVersion"`
	Plugins      []string `json:"plugins"`
	Capabilities []string `json:"capabilities"`
	// Subnets are those of the network's pools.
	Subnets []netip.Prefix `json:"subnets,omitempty"`
	// Usage has each family of the network's pools. Pools of IPAM plugins other than
	// host-local and allocnet-ipam are unknown.
	Usage []NetworkUsage `json:"usage,omitempty"`
	// Problem is why the network cannot be attached now; empty when it can.
	Problem string `json:"problem,omitempty"`
}

// NetworkUsage counts the addresses of one family in the pools of a network.
type NetworkUsage struct {
	// Family is ipv4 or ipv6.
	Family string `json:"family"`
	// Used is the number of addresses that have a lease on this host.
	Used int `json:"used"`
	// Total is the number that the plugin can assign. Above 2^53 it is rounded.
	Total float64 `json:"total"`
}

// Health is the answer of healthz and readyz while the agent is healthy; else the
// answer is an Error.
type Health struct {
	Status string `json:"status"`
}

// Collected is the answer of POST /v1/gc.
type Collected struct {
	// TornDown are the allocations whose attachments were removed.
	TornDown []string `json:"tornDown"`
	// Networks are those whose plugins were asked to collect (CNI's GC).
	Networks []string `json:"networks"`
	// Skipped has the reason for each other network.
	Skipped map[string]string `json:"skipped,omitempty"`
	// Postponed has, for each allocation with a failed teardown that is not due
	// again, the time of the next attempt.
	Postponed map[string]string `json:"postponed,omitempty"`
}
