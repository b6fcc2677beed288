// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"github.com/allocnet/allocnet/internal/dhcp"
)

// Lease is what the engine keeps of the lease of DHCP of an attachment. Nil: none is kept, so none is asked for.
type Lease struct {
	// Recorded is that on record; nil: there is none.
	Recorded *dhcp.Lease
	// Record records one. Nil for verbs other than ADD.
	Record func(dhcp.Lease) error
	// Job, Group and Task are of whose allocation it is; empty: unknown.
	Namespace, Job, Group, Task string
}

// Seams are what a chain has of the engine.
type Seams struct {
	// Isolation keeps the attachment apart; nil: nothing does.
	Isolation *Isolation
	// Lease keeps its lease of DHCP.
	Lease *Lease
}
