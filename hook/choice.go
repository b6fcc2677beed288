// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"fmt"

	"github.com/allocnet/allocnet/hook/internal/plan"
	"github.com/allocnet/allocnet/state"
)

// checkChosen refuses what attachments of other allocations have. The caller has the lock that
// keeps others from choosing the same. What an unreadable record has is unknown, and so is
// whether a chosen address is free, unless the network's pool has a lease for each.
func (o *operation) checkChosen(ctx context.Context, p *plan.Plan) error {
	if !p.ChoosesAddresses() {
		return nil
	}
	boot, err := state.BootID()
	if err != nil {
		return err
	}
	for record, err := range o.store.List(ctx) {
		if err == nil && o.portsUnknown(record) {
			err = &DamagedRecordError{Allocation: record.Allocation.ID, Damaged: record.Damaged}
		}
		if err != nil && p.NeedsRecords() {
			return fmt.Errorf("no address can be chosen: those of another allocation are unknown: %w", err)
		}
		past := record.Allocation.BootID != "" && record.Allocation.BootID != boot
		if err != nil || past || record.Allocation.ID == o.record.Allocation.ID {
			continue
		}
		if err := p.CheckChosen(record); err != nil {
			return err
		}
	}
	return ctx.Err()
}
