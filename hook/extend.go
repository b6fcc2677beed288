// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/allocnet/allocnet/hook/internal/kernel"
	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/hook/internal/plan"
	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/policy"
	"github.com/allocnet/allocnet/selection"
	"github.com/allocnet/allocnet/state"
)

// Attach attaches an existing allocation to further networks, as Extend does. An
// allocation without a record is state.ErrNotFound.
func (e *Engine) Attach(ctx context.Context, id string, networks []selection.Element) (*Allocation, error) {
	return e.Extend(ctx, Request{ID: id, Networks: networks})
}

// Extend attaches an existing allocation to further networks, all of them or none, and
// returns the allocation with them. Its other attachments are not touched. With
// Request.Netns the allocation needs no record: another runtime made the namespace and
// its primary network. When the namespace on record is gone and Netns is another one,
// the recorded attachments are torn down first.
//
// Networks without an interface get the first free net<n>. Repeated with the
// same request it returns the existing attachments, so a second attachment to one
// network needs another interface name. Calls for one allocation wait for each other.
//
// The default route stays where it is unless a network asks for it.
func (e *Engine) Extend(ctx context.Context, r Request) (*Allocation, error) {
	started := time.Now()
	a, err := e.attachFurther(ctx, r)
	e.reportAttach(r, started, err)
	return a, err
}

func (e *Engine) attachFurther(ctx context.Context, r Request) (*Allocation, error) {
	if err := r.ValidateExtension(); err != nil {
		return nil, err
	}
	digest, err := r.Digest()
	if err != nil {
		return nil, err
	}
	o, err := e.beginToAttach(ctx, r)
	if err != nil {
		return nil, err
	}
	defer o.end()
	if err := o.prepare(ctx, r); err != nil {
		return nil, err
	}
	done, err := o.isExtended(digest, len(r.Networks))
	if err != nil {
		return nil, err
	}
	if done {
		return describe(o.record)
	}
	return o.extend(ctx, r, digest, e.facts())
}

// isExtended tells whether a batch of the request is attached as a whole. Attachments
// of an earlier attempt that could not be removed are an error.
func (o *operation) isExtended(digest string, size int) (bool, error) {
	sizes := map[state.Batch]int{}
	for _, a := range o.record.Attachments {
		if a.Batch.Kind != state.BatchExtend || a.Batch.ID != digest {
			continue
		}
		if !onrecord.IsComplete(a) {
			reason := cmp.Or(a.Error, "it is in phase "+string(a.Phase))
			return false, o.failure("attach", a, 1, fmt.Errorf("an earlier attempt is not rolled back yet: %s", reason))
		}
		sizes[a.Batch]++
	}
	return slices.Contains(slices.Collect(maps.Values(sizes)), size), nil
}

// prepare makes sure that the allocation on record is set up in the namespace of the
// request, or that there is no record.
func (o *operation) prepare(ctx context.Context, r Request) error {
	if !o.hasRecord() {
		if r.Netns == "" {
			return fmt.Errorf("allocation %s %w", r.ID, state.ErrNotFound)
		}
		return nil
	}
	if err := o.repairRecord(); err != nil {
		return err
	}
	alive, same, err := o.compareNamespace(r.Netns)
	switch {
	case err != nil:
		return err
	case !alive && r.Netns == "":
		return fmt.Errorf("allocation %s: %w: set it up again", r.ID, &netns.MissingError{Path: o.record.Allocation.Netns, Reason: "its namespace is gone"})
	case !alive:
		return o.tearDownEarlier(ctx)
	case r.Netns != "" && !same:
		return &RequestError{Field: "netns", Value: r.Netns, Reason: fmt.Sprintf("allocation %s lives in %s", r.ID, o.record.Allocation.Netns)}
	}
	if !o.isSetUp() {
		return fmt.Errorf("allocation %s: its set-up was interrupted: set it up again, or tear it down", r.ID)
	}
	o.rollBackInterrupted(ctx)
	return nil
}

// extend executes the request, and rolls back all of it on failure.
func (o *operation) extend(ctx context.Context, r Request, digest string, f plan.Facts) (*Allocation, error) {
	ns, err := o.namespaceToExtend(r)
	if err != nil {
		return nil, err
	}
	defer ns.Close() //nolint:errcheck // read only
	if r.Identity == (policy.Identity{}) {
		r.Identity = o.record.Allocation.Identity
	}
	batch := state.Batch{Kind: state.BatchExtend, ID: digest, First: plan.NextIndex(o.record.Attachments)}
	present, err := ns.Interfaces()
	if err != nil {
		return nil, err
	}
	p, err := plan.Extend(o.record, present, r, batch, f)
	if err != nil {
		return nil, err
	}
	if err := o.attachAll(ctx, ns, p); err != nil {
		// The caller may have cancelled; the rollback needs a context of its own.
		undoing, stop := Undoing(ctx)
		defer stop()
		defer o.because(ReasonRollback)()
		if undo := o.remove(undoing, o.batch(batch)); undo != nil {
			err = errors.Join(err, errdefs.As(errdefs.Failed, fmt.Errorf("undo: %w", undo)))
		}
		return nil, err
	}
	return o.describeNew()
}

// namespaceToExtend opens the namespace on record. Without a record it is that of the
// request, and the allocation becomes one that Extend recorded.
func (o *operation) namespaceToExtend(r Request) (kernel.Namespace, error) {
	if o.hasRecord() {
		return o.namespace()
	}
	a, err := o.config.allocation(r, state.ModeExtend, "")
	if err != nil {
		return nil, err
	}
	host, err := policy.Load(o.config.PolicyFile)
	if err != nil {
		return nil, err
	}
	a.DNS = cmp.Or(host.DNS, PrimaryDNS)
	return o.sandbox(a)
}
