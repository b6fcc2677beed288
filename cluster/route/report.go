// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package route

import (
	"net/netip"

	"github.com/allocnet/allocnet/cluster/ipam"
)

// State is what became of a target.
type State string

// The states of targets.
const (
	// Installed is a target whose route the kernel has.
	Installed State = "installed"
	// Refused is a target that is not safe, or that cannot be reached in the pool's mode.
	Refused State = "refused"
	// Conflict is a target for whose block the kernel has a route that is not ours.
	Conflict State = "conflict"
	// Replaced is a target with this host's address: this host replaces another one, or has lost its records.
	// There is nothing to route.
	Replaced State = "replaced"
	// Failed is a target whose route the kernel did not accept.
	Failed State = "failed"
)

// Route is the route to a target.
type Route struct {
	Block netip.Prefix
	Node  string
	// Via is the next hop, and Device the name of the interface. Of a refused target they may be
	// missing.
	Via    netip.Addr
	Device string
	// Mode is ipam.ModeRouted or ipam.ModeVXLAN. Of a refused target it may be missing.
	Mode  ipam.Mode
	State State
	// Reason is why the state is not Installed.
	Reason string
}

// Report is what Apply found and did.
type Report struct {
	// Routes are those to the targets, in the order of these.
	Routes []Route
	// Unguarded is why not all is dropped that is not of the pool's hosts; see guard. Nil: it is.
	Unguarded error
	// Added, Replaced and Removed count changes of the kernel's tables: routes, neighbours, forwarding
	// databases and devices.
	Added, Replaced, Removed int
}
