// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"context"
	"fmt"
	"time"

	"github.com/allocnet/allocnet/internal/dhcp"
	"github.com/allocnet/allocnet/state"
)

// leases reports attachments whose leases of DHCP were lost, or will be, because nothing extends them. Records that cannot be read are
// reported as such.
func (d *Doctor) leases(ctx context.Context, r *Report) {
	kept := state.LeasesAreKept(d.StateDir)
	for record, err := range d.Store.Leases().List(ctx) {
		if err != nil {
			continue
		}
		for _, a := range record.Attachments {
			if a.Phase == state.Attached {
				leasesOf(r, record.Allocation.ID, a, kept)
			}
		}
	}
}

func leasesOf(r *Report, allocation string, a state.Attachment, kept bool) {
	for _, l := range a.Leased() {
		switch {
		case l.Lost:
			r.addError(allocation, fmt.Sprintf("interface %s lacks %s: its lease on network %q has ended, and no DHCP server gives another one", a.Interface, l.Address, a.Network),
				fmt.Sprintf("see allocnet events --network %s, and the DHCP server %s", a.Network, l.Server))
		case !kept && l.Stage(dhcp.Now()) != dhcp.Bound:
			r.addError(allocation, fmt.Sprintf("the lease of %s on network %q is to be extended, and no agent does: it ends at %s", l.Address, a.Network, l.Expires().Local().Format(time.RFC3339)),
				"systemctl start allocnet.service")
		}
	}
}
