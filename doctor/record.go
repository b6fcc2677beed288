// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"context"
	"errors"
	"fmt"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/state"
)

// records reports damaged records, pending teardowns, stale locks, and networks with very many attachments.
func (d *Doctor) records(ctx context.Context, r *Report, networks []network) {
	crowds := map[string]int{}
	for record, err := range d.Store.List(ctx) {
		if err != nil {
			r.addError("state", err.Error(), "use the program that wrote it, or move the file away")
			continue
		}
		recordFindings(r, record)
		portsElsewhere(r, record, netns.OwnsAddress)
		for _, a := range record.Attachments {
			if !a.IPv6Off {
				crowds[a.Network]++
			}
		}
	}
	crowdedLinks(r, networks, crowds)
	stale, err := d.Store.StaleLocks()
	if err != nil {
		r.addError("state", "cannot list lock files: "+err.Error(), "make root the owner of the state directory")
	}
	for _, id := range stale {
		r.addWarning(id, "a killed process left its lock file", "allocnet gc")
	}
}

func recordFindings(r *Report, record state.Record) {
	id := record.Allocation.ID
	for _, damaged := range record.Damaged {
		r.addError(id, "record is damaged: "+damaged.String(), repairCommand(record))
	}
	for _, a := range record.Attachments {
		if a.Phase == state.Pending {
			r.addError(id, fmt.Sprintf("teardown of %s is pending, attempt %d failed: %s", a.Interface, a.Attempts, a.Error), "allocnet detach "+id)
		}
	}
}

// repairCommand returns the command for a damaged record. An allocation whose
// namespace is gone needs no repair.
func repairCommand(record state.Record) string {
	a := record.Allocation
	ns, err := a.Namespace()
	if err == nil {
		_ = ns.Close() // only its existence matters
	}
	if a.Netns != "" && errors.Is(err, netns.ErrMissing) {
		return "allocnet gc"
	}
	return "allocnet check --repair " + a.ID
}
