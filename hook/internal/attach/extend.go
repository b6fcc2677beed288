// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package attach

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/allocnet/allocnet/allocation"
	"github.com/allocnet/allocnet/hook/internal/config"
	"github.com/allocnet/allocnet/hook/internal/kernel"
	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/hook/internal/operation"
	"github.com/allocnet/allocnet/hook/internal/plan"
	"github.com/allocnet/allocnet/hook/internal/remove"
	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/policy"
	"github.com/allocnet/allocnet/state"
)

// Extend is Engine.Extend.
func Extend(ctx context.Context, e *operation.Env, r plan.Request) (*allocation.Allocation, error) {
	started := time.Now()
	a, err := attachFurther(ctx, e, r)
	reportAttach(e, r, started, err)
	return a, err
}

func attachFurther(ctx context.Context, e *operation.Env, r plan.Request) (*allocation.Allocation, error) {
	o, digest, err := beginToAttach(ctx, e, r, r.ValidateExtension)
	if err != nil {
		return nil, err
	}
	defer o.End()
	if err := prepare(ctx, o, r); err != nil {
		return nil, err
	}
	done, err := isExtended(o, digest, len(r.Networks))
	if err != nil {
		return nil, err
	}
	if done {
		return onrecord.Describe(o.Record)
	}
	return extend(ctx, o, r, digest, facts(e, o.Host))
}

// isExtended tells whether a batch of the request is attached as a whole. Attachments
// of an earlier attempt that could not be removed are an error.
func isExtended(o *operation.Operation, digest string, size int) (bool, error) {
	sizes := map[state.Batch]int{}
	for _, a := range o.Record.Attachments {
		if a.Batch.Kind != state.BatchExtend || a.Batch.ID != digest {
			continue
		}
		if !onrecord.IsComplete(a) {
			reason := cmp.Or(a.Error, "it is in phase "+string(a.Phase))
			return false, o.Failure("attach", a, 1, fmt.Errorf("an earlier attempt is not rolled back yet: %s", reason))
		}
		sizes[a.Batch]++
	}
	return slices.Contains(slices.Collect(maps.Values(sizes)), size), nil
}

// prepare makes sure that the allocation on record is set up in the namespace of the
// request, or that there is no record.
func prepare(ctx context.Context, o *operation.Operation, r plan.Request) error {
	if !o.HasRecord() {
		if r.Netns == "" {
			return fmt.Errorf("allocation %s %w", r.ID, state.ErrNotFound)
		}
		return nil
	}
	if err := o.RepairRecord(); err != nil {
		return err
	}
	alive, same, err := compareNamespace(o, r.Netns)
	switch {
	case err != nil:
		return err
	case !alive && r.Netns == "":
		return fmt.Errorf("allocation %s: %w: set it up again", r.ID, &netns.MissingError{Path: o.Record.Allocation.Netns, Reason: "its namespace is gone"})
	case !alive:
		return tearDownEarlier(ctx, o)
	case r.Netns != "" && !same:
		return &plan.RequestError{Field: "netns", Value: r.Netns, Reason: fmt.Sprintf("allocation %s lives in %s", r.ID, o.Record.Allocation.Netns)}
	}
	if !o.IsSetUp() {
		return fmt.Errorf("allocation %s: its set-up was interrupted: set it up again, or tear it down", r.ID)
	}
	remove.RollBackInterrupted(ctx, o)
	return nil
}

// extend executes the request, and rolls back all of it on failure.
func extend(ctx context.Context, o *operation.Operation, r plan.Request, digest string, f plan.Facts) (*allocation.Allocation, error) {
	ns, err := namespaceToExtend(o, r)
	if err != nil {
		return nil, err
	}
	defer ns.Close() //nolint:errcheck // read only
	if r.Identity == (policy.Identity{}) {
		r.Identity = o.Record.Allocation.Identity
	}
	batch := state.Batch{Kind: state.BatchExtend, ID: digest, First: plan.NextIndex(o.Record.Attachments)}
	present, err := ns.Interfaces()
	if err != nil {
		return nil, err
	}
	p, err := plan.Extend(o.Record, present, r, batch, f)
	if err != nil {
		return nil, err
	}
	if err := attachAll(ctx, o, ns, p); err != nil {
		// The caller may have cancelled; the rollback needs a context of its own.
		undoing, stop := operation.Undoing(ctx)
		defer stop()
		defer o.Because(config.ReasonRollback)()
		if undo := remove.Attachments(undoing, o, onrecord.OfBatch(o.Record.Attachments, batch)); undo != nil {
			err = errors.Join(err, errdefs.As(errdefs.Failed, fmt.Errorf("undo: %w", undo)))
		}
		return nil, err
	}
	return describeNew(o)
}

// namespaceToExtend opens the namespace on record. Without a record it is that of the
// request, and the allocation becomes one that Extend recorded.
func namespaceToExtend(o *operation.Operation, r plan.Request) (kernel.Namespace, error) {
	if o.HasRecord() {
		return o.Namespace()
	}
	a, err := recordOf(*o.Config, r, state.ModeExtend, "")
	if err != nil {
		return nil, err
	}
	host, err := policy.Load(o.Config.PolicyFile)
	if err != nil {
		return nil, err
	}
	a.DNS = cmp.Or(host.DNS, onrecord.PrimaryDNS)
	return sandbox(o, a)
}
