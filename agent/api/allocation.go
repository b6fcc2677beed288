// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package api

import "github.com/allocnet/allocnet/allocation"

// Allocation is what the engine tells of an allocation, which is sent as it is.
type Allocation = allocation.Allocation

// Details are those of an allocation's attachments, in their order.
type Details struct {
	Attachments []allocation.Details `json:"attachments"`
}

// Selection is a list of networks. The agent also accepts one element, or a
// string in the short form of `--networks`, and checks the selection.
type Selection []allocation.Element

// Port is a port of an allocation, assigned by a scheduler.
type Port = allocation.Port
