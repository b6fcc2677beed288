// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package plugin

import (
	"github.com/allocnet/allocnet/internal/dhcp"
)

// Lease is what the engine keeps of the leases of DHCP of an attachment. Nil: none is kept, so none is asked for.
type Lease struct {
	// Recorded are those on record, one of each family at most.
	Recorded []dhcp.Lease
	// Record records one, in place of that of its family. Nil for verbs other than ADD.
	Record func(dhcp.Lease) error
	// Job, Group and Task are of whose allocation it is; empty: unknown.
	Namespace, Job, Group, Task string
}

// Of returns the lease on record of a family; nil: there is none.
func (l *Lease) Of(f dhcp.Family) *dhcp.Lease {
	if l == nil {
		return nil
	}
	for i, recorded := range l.Recorded {
		if recorded.Family() == f {
			return &l.Recorded[i]
		}
	}
	return nil
}

// Seams are what a chain has of the engine.
type Seams struct {
	// Isolation keeps the attachment apart; nil: nothing does.
	Isolation *Isolation
	// Lease keeps its leases of DHCP.
	Lease *Lease
}
