// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package nomadclient

// Group is what a group of tasks asks of the client that runs it.
type Group struct {
	// Region and Namespace are empty for Nomad's defaults, global and default.
	Region, Namespace string
	Job, Name         string
	// Count is the number of allocations.
	Count int
	Meta  map[string]string
	// Networks are the network blocks. The first has the mode and the ports.
	Networks []Network
	// Connect: a service of the group is in the service mesh. TransparentProxy: its sidecar
	// intercepts the traffic.
	Connect, TransparentProxy bool
}

// Network is a network block.
type Network struct {
	// Mode is cni/NAME.
	Mode  string
	Ports []Port
	// Args are the CNI arguments.
	Args map[string]string
	// DNS replaces that of the network. Nil: there is no dns block.
	DNS *DNS
}

// Port is a port block.
type Port struct {
	Label string
	// Static is the port of the host. Zero: the scheduler chooses it.
	Static int
	// To is the port in the namespace. Zero: that of the host.
	To int
}

// DNS is a resolver configuration.
type DNS struct{ Servers, Searches, Options []string }
