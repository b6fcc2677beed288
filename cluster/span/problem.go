// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package span

import (
	"slices"
	"strings"
)

// Kind is what keeps a pool's routes from being right.
type Kind string

// kinds of problems.
const (
	// AddressUnknown is that this host does not know its own address.
	AddressUnknown Kind = "address"
	// DeviceFailed is a VXLAN device that could not be made.
	DeviceFailed Kind = "device"
	// EndpointFailed is that the other hosts could not be told where this host is.
	EndpointFailed Kind = "endpoint"
	// StoreFailed is a store that does not answer. The present routes stay.
	StoreFailed Kind = "store"
	// NodesFailed is that Nomad does not say which nodes there are. The present routes stay.
	NodesFailed Kind = "nodes"
	// KernelFailed is that the kernel's tables could not be read or changed.
	KernelFailed Kind = "kernel"
	// Invalid are entries of the store that are no block of another host.
	Invalid Kind = "invalid"
	// Unrouted are blocks of other hosts to which the kernel has no route of ours: also those
	// whose address is not that of their node.
	Unrouted Kind = "unrouted"
	// Filtered is that this host drops packets of other hosts.
	Filtered Kind = "filtered"
	// Unguarded is that packets of others than the pool's hosts get into its VXLAN.
	Unguarded Kind = "unguarded"
	// Overlapping is a pool with a part of the subnets of another one, which has its routes. This
	// one has none.
	Overlapping Kind = "overlap"
)

// Kinds are all kinds of problems, in the order in which they are reported.
var Kinds = []Kind{AddressUnknown, DeviceFailed, EndpointFailed, StoreFailed, NodesFailed, KernelFailed, Invalid, Unrouted, Filtered, Unguarded, Overlapping}

// Problem is a problem of a pool.
type Problem struct {
	Kind Kind
	// Text says what the problem is.
	Text string
}

// mostNamed bounds the blocks that a problem names: others may write as many as they like.
const mostNamed = 5

// list joins the first of the texts.
func list(texts []string) string {
	slices.Sort(texts)
	if more := len(texts) - mostNamed; more > 0 {
		texts = append(texts[:mostNamed:mostNamed], "...")
	}
	return strings.Join(texts, "; ")
}
