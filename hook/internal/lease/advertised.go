// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package lease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/allocnet/allocnet/hook/internal/config"
	"github.com/allocnet/allocnet/hook/internal/isolate"
	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/hook/internal/operation"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/state"
)

// lookEvery is the time between two looks at what router advertisements give: routers announce changes minutes before.
const lookEvery = 10 * time.Second

// follow records until ctx ends which addresses router advertisements give attachments that are to have them on record.
func follow(ctx context.Context, env *operation.Env) {
	for ; ctx.Err() == nil; _ = config.Sleep(ctx, lookEvery) {
		for record, err := range env.Store.Leases().List(ctx) {
			if err == nil { // else the keeper says so
				err = lookAt(ctx, env, record)
			}
			if err != nil && ctx.Err() == nil {
				env.Config.Logger.Debug("which addresses routers give is not known", "allocation", record.Allocation.ID, "error", err)
			}
		}
	}
}

// isFollowed tells whether the addresses by router advertisements of an attachment are on record, and nothing else works on it.
func isFollowed(a state.Attachment) bool {
	return a.AwaitRA && onrecord.IsComplete(a) && a.FormerResult == nil && a.Result != nil
}

// lookAt compares an allocation with its record, and locks it only if that differs.
func lookAt(ctx context.Context, env *operation.Env, r state.Record) error {
	if !slices.ContainsFunc(r.Attachments, isFollowed) {
		return nil
	}
	n, err := env.Config.OpenNamespace(r.Allocation)
	if errors.Is(err, netns.ErrMissing) { // garbage collections decide what that means
		return nil
	}
	if err != nil {
		return err
	}
	defer n.Close() //nolint:errcheck // read only
	present, err := n.Interfaces()
	if err != nil || !slices.ContainsFunc(r.Attachments, func(a state.Attachment) bool { return hasOthers(a, present) }) {
		return err
	}
	return env.Locked(ctx, r.Allocation.ID, func(o *operation.Operation) error { return readvertise(ctx, env, o) })
}

// hasOthers tells whether the interface of an attachment has other addresses by router advertisements than those on record. One that is
// gone has what it had.
func hasOthers(a state.Attachment, present []netns.Interface) bool {
	at := netns.Index(present, a.Interface)
	return isFollowed(a) && at >= 0 && !slices.Equal(present[at].Advertised, a.Advertised)
}

// readvertise records what the interfaces of an allocation have, and then has the host let pass what they send.
func readvertise(ctx context.Context, env *operation.Env, o *operation.Operation) error {
	n, err := o.Namespace()
	if err != nil {
		return err
	}
	present, err := n.Interfaces()
	if err != nil {
		return err
	}
	for i := range o.Record.Attachments {
		a := &o.Record.Attachments[i]
		if !hasOthers(*a, present) {
			continue
		}
		started := time.Now()
		a.Advertised, a.Updated = present[netns.Index(present, a.Interface)].Advertised, started.UTC()
		if a.Status, err = onrecord.Readvertise(*a); err != nil {
			return err
		}
		if err := o.Lock.Write(*a); err != nil {
			return err
		}
		var lost error
		if len(a.Advertised) == 0 {
			lost = fmt.Errorf("no router gives %s an IPv6 address any more", a.Interface)
		}
		o.AttachmentLog(*a).Info("the addresses by router advertisements are others", "addresses", a.Advertised)
		o.Config.Report(o.Observation(config.OpLease, *a, 1, started, lost))
	}
	return isolate.Apply(ctx, env)
}
