// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package attach

import (
	"context"
	"fmt"
	"iter"

	"github.com/allocnet/allocnet/hook/internal/operation"
	"github.com/allocnet/allocnet/hook/internal/plan"
	"github.com/allocnet/allocnet/portmap"
	"github.com/allocnet/allocnet/state"
)

// claimPorts refuses a plan with ports, or with chosen addresses, that are in use. Otherwise no
// other call gets one of them before release.
func claimPorts(ctx context.Context, o *operation.Operation, p *plan.Plan) (release func(), err error) {
	choosing := p.AnyPort(plan.ChosenPorts) || p.ChoosesAddresses()
	if !choosing && !p.AnyPort(plan.AllPorts) {
		return func() {}, nil
	}
	release, err = o.Store.LockPorts(ctx, choosing)
	if err != nil {
		return nil, err
	}
	err = checkListeners(o, p)
	if err == nil && p.AnyPort(plan.AllPorts) {
		err = checkRecords(ctx, o, p)
	}
	if err == nil {
		err = checkChosen(ctx, o, p)
	}
	if err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// checkListeners refuses a port that no scheduler assigned and a program of this host listens on:
// the mapping would take its traffic.
func checkListeners(o *operation.Operation, p *plan.Plan) error {
	if !p.AnyPort(plan.UnassignedPorts) {
		return nil
	}
	listeners, err := o.Config.Host.Listeners()
	if err != nil {
		return err
	}
	for _, l := range listeners {
		taken := portmap.Mapping{HostPort: int32(l.Port), Protocol: l.Protocol, HostIP: l.Address.String()}
		if l.Address.Is6() && l.Address.IsUnspecified() {
			taken.HostIP = "" // it receives IPv4 as well, unless told not to
		}
		if err := p.RefusePort(plan.UnassignedPorts, taken, fmt.Sprintf("a program of this host listens on %s", l.Address)); err != nil {
			return err
		}
	}
	return nil
}

// checkRecords refuses a chosen port that another allocation has, and an
// assigned one that another allocation chose.
func checkRecords(ctx context.Context, o *operation.Operation, p *plan.Plan) error {
	records, chooses := o.Store.ListChosen(ctx), p.AnyPort(plan.ChosenPorts) // assigned ports collide with no others
	if chooses {
		records = o.Store.List(ctx)
	}
	return compareOthers(ctx, o, records, chooses, "no host port can be chosen: the ports of another allocation are unknown", p.CheckPorts)
}

// checkChosen refuses addresses that attachments of other allocations have.
func checkChosen(ctx context.Context, o *operation.Operation, p *plan.Plan) error {
	if !p.ChoosesAddresses() {
		return nil
	}
	return compareOthers(ctx, o, o.Store.List(ctx), p.NeedsRecords(), "no address can be chosen: those of another allocation are unknown", p.CheckChosen)
}

// compareOthers checks the records of other allocations: the rules and addresses of an earlier boot are gone. What an unreadable
// record has is unknown, and so is whether what a plan needs is free: that is the error unknown.
func compareOthers(ctx context.Context, o *operation.Operation, records iter.Seq2[state.Record, error], needed bool, unknown string, check func(state.Record) error) error {
	boot, err := state.BootID()
	if err != nil {
		return err
	}
	for record, err := range records {
		if err == nil && portsUnknown(o, record) {
			err = &operation.DamagedRecordError{Allocation: record.Allocation.ID, Damaged: record.Damaged}
		}
		if err != nil && needed {
			return fmt.Errorf("%s: %w", unknown, err)
		}
		if err != nil {
			o.Log.Warn("the ports and addresses of another allocation are unknown", "error", err)
			continue
		}
		own := record.Allocation.ID == o.Record.Allocation.ID
		if past := record.Allocation.BootID != "" && record.Allocation.BootID != boot; own || past {
			continue
		}
		if err := check(record); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// portsUnknown tells whether another allocation, which may be alive, has unknown ports
// because its record is damaged.
func portsUnknown(o *operation.Operation, r state.Record) bool {
	other := operation.NewOperation(o.Config, o.Store, r)
	defer other.CloseNamespace()
	return r.Allocation.ID != o.Record.Allocation.ID && other.IsUnknown()
}
