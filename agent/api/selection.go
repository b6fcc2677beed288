// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package api

import "github.com/allocnet/allocnet/allocation"

// Selection is a list of networks. The agent also accepts one element, or a
// string in the short form of `--networks`, and checks the selection.
type Selection []Element

// What a client asks for, which the engine gets as it is.
type (
	// Element selects one network.
	Element = allocation.Element
	// Bandwidth is the bandwidth capability of the CNI conventions.
	Bandwidth = allocation.Bandwidth
	// PortMapping is an element of the portMappings capability.
	PortMapping = allocation.ChosenPort
	// Port is a port of an allocation, assigned by a scheduler.
	Port = allocation.Port
)
