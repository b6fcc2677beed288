// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package repair

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/containernetworking/cni/libcni"
	"golang.org/x/sync/errgroup"

	"github.com/allocnet/allocnet/hook/internal/attach"
	"github.com/allocnet/allocnet/hook/internal/config"
	"github.com/allocnet/allocnet/hook/internal/inspect"
	"github.com/allocnet/allocnet/hook/internal/kernel"
	"github.com/allocnet/allocnet/hook/internal/lastcheck"
	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/hook/internal/operation"
	"github.com/allocnet/allocnet/hook/internal/plan"
	"github.com/allocnet/allocnet/hook/internal/remove"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/state"
)

// ParallelReattachments is how many allocations are attached again at once, each with its plugins: the
// interfaces of all may go with one link of the host.
const ParallelReattachments = 4

// reattachmentGrace is the most of RepairRequest.Grace.
const reattachmentGrace = 30 * time.Second

// unfinishedReattachment is what an attachment lacks that is being attached again.
const unfinishedReattachment = "it was detached to be attached again, which is not done"

// reattachEach repairs allocations together, and attaches again what only comes back so in one allocation
// after the other, a few at a time: plugins may hang, and other allocations are not locked meanwhile.
func reattachEach(ctx context.Context, e *operation.Env, ids []string, r Request) ([]Drift, error) {
	deferring := r
	deferring.Defer = true
	found, err := repairParts(ctx, e, ids, deferring)
	if err != nil {
		return found, err
	}
	var drifts []Drift
	var due []string
	for _, d := range found {
		switch {
		case d.Skipped != SkippedReattachment:
			drifts = append(drifts, d)
		case !slices.Contains(due, d.Allocation):
			due = append(due, d.Allocation)
		}
	}
	reattached := make([][]Drift, len(due))
	var group errgroup.Group
	group.SetLimit(ParallelReattachments)
	for i, id := range due {
		group.Go(func() (err error) {
			reattached[i], err = repairPart(ctx, e, []string{id}, r)
			return err
		})
	}
	err = group.Wait()
	drifts = append(drifts, slices.Concat(reattached...)...)
	sortDrifts(drifts)
	return drifts, err
}

// reattachAll attaches again what only comes back so, in the order in which attachments were made.
func (r *repairRound) reattachAll(ctx context.Context) {
	for _, p := range r.repairs {
		due := p.reattaches && len(p.Unrepairable) > 0 && p.Err == nil && ctx.Err() == nil
		if due && r.request.Defer {
			p.deferred = true
		} else if due {
			p.reattach(ctx, r.request.Grace)
		}
	}
}

// reattach attaches an attachment again, if that cannot harm what a task has moved on purpose.
func (p *Repairing) reattach(ctx context.Context, grace time.Duration) {
	ns, err := p.operation.Namespace()
	if err != nil {
		p.Err = err
		return
	}
	if err := p.confirm(ctx, ns); err != nil || len(p.Unrepairable) == 0 {
		p.Err = err
		return
	}
	list, err := onrecord.List(*p.Attachment())
	if err == nil {
		err = p.refuseReattachment(ns, list)
	}
	if err != nil {
		p.Err = fmt.Errorf("it is not attached again: %w", err)
		return
	}
	if a := p.Attachment(); a.FormerResult == nil {
		a.Error = strings.Join(p.Unrepairable, ", ") + ": " + unfinishedReattachment
	}
	if err := detachAndAttach(ctx, p.operation, ns, p.Attachment(), list, grace); err != nil {
		p.Err = fmt.Errorf("attach it again: %w", err)
		return
	}
	p.reattached = true
	p.round.env.LastChecks.Forget(lastcheck.KeyOf(p.operation.Record, *p.Attachment()))
	p.Err = p.around(ctx, ns)
}

// confirm looks again after a while at an interface that is there, and differs from what was attached:
// a task may be changing it.
func (p *Repairing) confirm(ctx context.Context, ns kernel.Namespace) error {
	if p.differs == nil {
		return nil
	}
	if err := p.operation.Config.Pause(ctx, VerifyPause); err != nil {
		return err
	}
	present, err := ns.Interfaces()
	if err == nil && inspect.Inside(*p.Attachment(), present) == nil {
		p.Unrepairable = nil
	}
	return err
}

// detachAndAttach runs DEL and ADD of an attachment. Before each it is on record that it begins, so that a
// process that finds the record after a kill repeats both. What the attachment had stays on record
// until all of it is there again; after a failure nothing of it is left on the host.
//
// When the caller ends, it goes on for a while: without ADD the attachment would be missing until the next
// repair.
func detachAndAttach(ctx context.Context, o *operation.Operation, ns kernel.Namespace, a *state.Attachment, list *libcni.NetworkConfigList, grace time.Duration) error {
	unlock, err := o.Store.RLockHost(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := remove.WaitForOrphans(ctx, o); err != nil {
		return err
	}
	if err := o.HoldForPlugins(); err != nil {
		return err
	}
	ctx, stop := graced(ctx, cmp.Or(min(grace, reattachmentGrace), reattachmentGrace))
	defer stop()
	if err := detachAgain(ctx, o, a, list); err != nil {
		return err
	}
	if err := attachAgain(ctx, o, ns, a, list); err != nil {
		return errors.Join(err, remove.UndoAdd(ctx, o, a, list))
	}
	return nil
}

// graced returns a context that ends a while after another one.
func graced(ctx context.Context, grace time.Duration) (longer context.Context, stop func()) {
	longer, end := context.WithCancelCause(context.WithoutCancel(ctx))
	unwatch := context.AfterFunc(ctx, func() {
		_ = config.Sleep(longer, grace) // is over, or the attachment is there
		end(context.Cause(ctx))
	})
	return longer, func() { unwatch(); end(nil) }
}

// detachAgain removes what is left of an attachment, and records that. It has the leases of the pools
// of allocnet-ipam kept, so that nothing else gets its addresses meanwhile.
func detachAgain(ctx context.Context, o *operation.Operation, a *state.Attachment, list *libcni.NetworkConfigList) error {
	if a.FormerResult == nil {
		a.FormerResult = a.Result
	} else if a.Planned { // an earlier attempt has removed it
		return nil
	}
	found := []state.Attachment{*a}
	o.Config.Cache().RecallResults(found)
	*a = found[0]
	a.Updated = time.Now().UTC()
	if err := o.Lock.Write(*a); err != nil {
		return err
	}
	c, err := remove.Del(ctx, o, *a, list, o.Record.Allocation.Netns, inspect.Gone)
	err = errors.Join(err, o.Commit(ctx, c)[0])
	if err != nil || operation.Replaces(c.Changes, *a) {
		if err := remove.Clean(ctx, o, []state.Suspect{{Attachment: *a, DelErr: err}}); err != nil {
			return err
		}
	}
	return remove.RecordUndone(ctx, o, a)
}

// attachAgain runs ADD, and repairs what allocnet makes around it.
func attachAgain(ctx context.Context, o *operation.Operation, ns kernel.Namespace, a *state.Attachment, list *libcni.NetworkConfigList) error {
	before, err := ns.DefaultRoutes()
	if err != nil {
		return err
	}
	if err := errors.Join(refuseName(o, ns, *a), inspect.RefuseOtherRoutes(o.Record, o.Config.IsKnown, *a, list, before)); err != nil {
		return err
	}
	a.Attempts = 0
	c, err := attach.Add(ctx, ctx, o, a, list)
	if err != nil {
		return err
	}
	if err := o.Commit(ctx, c)[0]; err != nil {
		return err
	}
	a.RuleHandles = c.RuleHandles()
	if err := onrecord.RequireFormerAddresses(*a); err != nil {
		return err
	}
	if err := o.WorkIn(ns).Restore(a); err != nil {
		return err
	}
	return finishReattachment(o, ns, a, list)
}

// refuseName refuses an attachment whose name another interface has by now.
func refuseName(o *operation.Operation, ns kernel.Namespace, a state.Attachment) error {
	present, err := ns.Interfaces()
	if err == nil && netns.Index(present, a.Interface) >= 0 {
		return plan.InterfaceExists(a, o.Record.Allocation.Netns)
	}
	return err
}

func finishReattachment(o *operation.Operation, ns kernel.Namespace, a *state.Attachment, list *libcni.NetworkConfigList) error {
	seen, err := onrecord.ReadStatus(*a)
	if err != nil {
		return err
	}
	present, err := ns.Interfaces()
	if err != nil {
		return err
	}
	if err := onrecord.RequirePresent(*a, present); err != nil {
		return err
	}
	done := *a
	done.FormerResult, done.Error, done.CheckPassed, done.Updated = nil, "", false, time.Now().UTC()
	inspect.NoteDevice(&done, list, present)
	var routes []netns.Route
	for _, gateway := range seen.Gateways {
		routes = append(routes, netns.Route{Interface: a.Interface, Gateway: gateway})
	}
	if done.Status, err = onrecord.EncodeStatus(done, present, routes, seen.Mappings()); err != nil {
		return err
	}
	if err := o.Lock.Write(done); err != nil {
		return err
	}
	*a = done
	if err := o.Config.Cache().Write(done, o.Record.Allocation.Netns); err != nil { // DEL takes what is on record
		o.AttachmentLog(done).Warn("libcni's cache has other arguments than the record", "error", err)
	}
	return o.Work().Keep(nil)
}

// refuseReattachment returns why an attachment must not be detached.
func (p *Repairing) refuseReattachment(ns kernel.Namespace, list *libcni.NetworkConfigList) error {
	a := *p.Attachment()
	if err := p.operation.Config.LacksPlugin(a, list); err != nil {
		return err
	}
	present, routes, err := kernel.Look(ns)
	if err == nil {
		err = inspect.RefuseOtherRoutes(p.operation.Record, p.operation.Config.IsKnown, a, list, routes)
	}
	if err != nil {
		return err
	}
	if a.FormerResult != nil {
		return refuseForeign(p.operation, a, present)
	}
	if err := inspect.RefuseMoved(p.operation.Record, p.operation.Config.Host, a, list, present); err != nil {
		return err
	}
	at := netns.Index(present, a.Interface)
	if at < 0 {
		return nil
	}
	if p.inProcess {
		return inspect.NotAttached(present[at])
	}
	if err := inspect.RefuseIPv6(ns, a); err != nil {
		return err
	}
	return inspect.RefuseMaster(p.operation.Record, a)
}

// refuseForeign refuses to go on with a reattachment that was interrupted if DEL would remove an
// interface that is neither the former one nor what ADD has reported: a task may have made it since.
func refuseForeign(o *operation.Operation, a state.Attachment, present []netns.Interface) error {
	seen, err := onrecord.ReadStatus(a)
	if err != nil || a.Planned { // before ADD there is no DEL
		return err
	}
	found := []state.Attachment{a}
	o.Config.Cache().RecallResults(found)
	for _, i := range present {
		if i.Name == a.Interface && i.MAC != seen.MAC && !onrecord.Shows(found[0], []netns.Interface{i}) {
			return inspect.NotAttached(i)
		}
	}
	return nil
}
