// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package remove detaches: DEL of attachments, forced cleanup of what it leaves, and the record of what stays; for callers, for
// set-ups that fail, for garbage collections, and for what earlier boots left.
package remove

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/containernetworking/cni/libcni"

	"github.com/allocnet/allocnet/hook/internal/config"
	"github.com/allocnet/allocnet/hook/internal/inspect"
	"github.com/allocnet/allocnet/hook/internal/isolate"
	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/hook/internal/operation"
	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/state"
)

// Teardown is Engine.Teardown.
func Teardown(ctx context.Context, e *operation.Env, id string) error {
	return report(ctx, e, id, func(o *operation.Operation) error { return All(ctx, o) })
}

// TeardownOwned is Engine.TeardownOwned. The record is read once, and with the lock: another call may set the allocation up anew.
func TeardownOwned(ctx context.Context, e *operation.Env, id, owner string) (owned bool, err error) {
	err = report(ctx, e, id, func(o *operation.Operation) error {
		recorded := o.Record.Allocation.Owner
		if owned = recorded == "" || recorded == owner; !owned {
			return nil
		}
		return All(ctx, o)
	})
	return owned, err
}

// report does a removal on a locked allocation, and reports a failure that is not that of an attachment, which is reported
// already. What is not attached is no failure: callers repeat a removal.
func report(ctx context.Context, e *operation.Env, id string, do func(o *operation.Operation) error) error {
	started := time.Now()
	err := e.Locked(ctx, id, do)
	if _, absent := errors.AsType[*NotAttachedError](err); absent || errors.Is(err, state.ErrNotFound) {
		return err
	}
	o := config.Observation{Op: config.OpDetach, Allocation: id, Err: err}
	if err != nil && state.ValidateID(id) == nil {
		if record, unread := e.Store.Read(id); unread == nil {
			o.Identity = record.Allocation.Identity
		}
	}
	e.ReportCall(o, started)
	return err
}

// ErrAlive is an allocation that is alive, or may be.
var ErrAlive = errdefs.New(errdefs.Refused, "is not dead")

// TearDownDead is Engine.TearDownDead.
func TearDownDead(ctx context.Context, e *operation.Env, id string) error {
	return report(ctx, e, id, func(o *operation.Operation) error {
		if err := alive(o); err != nil {
			return err
		}
		return All(ctx, o)
	})
}

// Forget is Engine.Forget.
func Forget(ctx context.Context, e *operation.Env, id string) error {
	return report(ctx, e, id, func(o *operation.Operation) error {
		if !o.IsLost() {
			if err := alive(o); err != nil {
				return err
			}
			err := All(ctx, o)
			if err == nil {
				return nil
			}
			if errors.Is(ctx.Err(), context.Canceled) { // a further call may remove it
				return errors.Join(err, ctx.Err())
			}
			o.Log.Warn("the record is dropped although not all of it was removed", "error", err)
		} else if path, err := o.NamespacePath(); path != "" || err != nil {
			return cmp.Or(err, inUse(o, path))
		}
		setDamageAside(o)
		return o.Lock.Clear()
	})
}

// alive returns why the allocation does not count as dead.
func alive(o *operation.Operation) error {
	if o.IsUnknown() {
		return errdefs.As(errdefs.Refused, fmt.Errorf("allocation %s %w: %w", o.Record.Allocation.ID, ErrAlive, o.DamagedRecord(nil)))
	}
	recorded := o.HasRecord()
	if err := o.LoadFromCache(); err != nil {
		return err
	}
	path, err := o.NamespacePath()
	if err != nil {
		return err
	}
	if path != "" && (o.IsSetUp() || !recorded) {
		return inUse(o, path)
	}
	return nil
}

func inUse(o *operation.Operation, path string) error {
	id := o.Record.Allocation.ID
	return fmt.Errorf("allocation %s %w: its namespace %s exists: to tear it down anyway: allocnet detach %s", id, ErrAlive, path, id)
}

// All removes the attachments of the record, or of libcni's cache where the record
// is lost. Attachments that cannot be removed stay on record as pending.
func All(ctx context.Context, o *operation.Operation) error {
	if err := o.LoadFromCache(); err != nil {
		return err
	}
	return Recorded(ctx, o)
}

// Recorded removes the attachments of the record alone.
func Recorded(ctx context.Context, o *operation.Operation) error {
	if !o.HasRecord() {
		return forget(ctx, o)
	}
	if o.IsLost() {
		return o.DamagedRecord(nil)
	}
	setDamageAside(o)
	if err := WaitForOrphans(ctx, o); err != nil {
		return err
	}
	path, err := o.FindNamespace()
	if err != nil {
		return err
	}
	if err := detachAll(ctx, o, path, o.Record.Attachments); err != nil {
		return errors.Join(err, restoreAfterRemoval(o))
	}
	if err := leaveNamespace(o); err != nil {
		return err
	}
	return forget(ctx, o)
}

// forget removes the record. After the last one the host keeps nothing apart any more; what it cannot do of that the next GC does.
func forget(ctx context.Context, o *operation.Operation) error {
	if err := o.Lock.Clear(); err != nil {
		return err
	}
	if err := isolate.End(ctx, o); err != nil {
		o.Log.Warn("isolation is not removed from the host", "error", err)
	}
	return nil
}

// setDamageAside keeps the damaged record and writes the readable part anew, before a
// teardown.
func setDamageAside(o *operation.Operation) {
	if len(o.Record.Damaged) == 0 {
		return
	}
	if err := o.Lock.Repair(o.Record); err != nil { // such as a full disk, which must not stop a teardown
		o.Log.Warn("the damaged record is not kept", "error", err)
	}
	o.Record.Damaged = nil
}

// detachAll runs DEL for attachments, the newest first where the order matters. It
// continues after a failure, and forced cleanup removes what DEL left.
func detachAll(ctx context.Context, o *operation.Operation, path string, attachments []state.Attachment) error {
	attachments, err := forgetPlanned(o, path, attachments)
	if err != nil || len(attachments) == 0 {
		return err
	}
	if err := o.HoldForPlugins(); err != nil {
		return err
	}
	o.Config.Cache().RecallResults(attachments)
	absences := absences(o, path, attachments)
	markDeleting(o, attachments)
	if err := o.Work().Keep(attachments); err != nil { // it must not keep anything attached
		o.Log.Warn("resolv.conf still has the DNS of detached networks", "error", err)
	}
	dels, stop := operation.Phase(ctx, operation.DelShare, "DEL")
	defer stop()
	attachments = withoutRoutesByEachOther(attachments)
	errs, chains := make([]error, len(attachments)), make([]*operation.Call, len(attachments))
	operation.InOrder(dels, len(attachments), func(i int) []int { return onrecord.Successors(attachments, i) }, func(i int) {
		errs[i] = o.Instrument(config.OpDetach, &attachments[i], func() (err error) {
			chains[i], err = detach(dels, o, &attachments[i], path, absences[attachments[i].Interface])
			return err
		})
	})
	release, err := isolate.Hold(ctx, o)
	if err != nil {
		return err
	}
	commitDetached(dels, o, attachments, chains, errs, absences)
	release()
	// Those that were removed in process in place of their plugins have forced cleanup, each by itself: the failure of another one
	// does not keep its record, because a further DEL would remove an interface that another program has given the same name.
	for i, a := range attachments {
		if path != "" && errs[i] == nil && operation.Replaces(chains[i].Changes, a) {
			errs[i] = removeLeftovers(ctx, o, []state.Suspect{suspect(a, nil, absences[a.Interface])})
		}
	}
	return removeLeftovers(ctx, o, suspects(o, attachments, errs, absences))
}

// commitDetached makes what the chains of DEL have left, also of those that failed: a plugin
// removes what it can. It adds the errors.
func commitDetached(ctx context.Context, o *operation.Operation, attachments []state.Attachment, chains []*operation.Call, errs []error, absences map[string]inspect.Absence) {
	for i, err := range o.Commit(ctx, chains...) {
		switch {
		case err != nil:
			errs[i] = errors.Join(errs[i], o.Failure("detach", attachments[i], attachments[i].Attempts, err))
		case errs[i] == nil && chains[i].Changes != nil && !operation.Replaces(chains[i].Changes, attachments[i]):
			errs[i] = forgetDetached(o, attachments[i], chains[i].List, absences[attachments[i].Interface])
		}
	}
}

// forgetDetached deletes the record of an attachment that DEL has removed, unless forced
// cleanup follows: see suspects.
func forgetDetached(o *operation.Operation, a state.Attachment, list *libcni.NetworkConfigList, is inspect.Absence) error {
	if err := requireReleased(o, a, list, is); err != nil {
		return o.Failure("detach", a, a.Attempts, err)
	}
	o.AttachmentLog(a).Info("detached")
	if is != inspect.Present || o.Config.MadeByOtherIPTables(a) {
		return nil
	}
	return o.Lock.Delete(a.Interface)
}

// forgetPlanned deletes the records of attachments whose ADD has not begun, and returns
// the others: DEL could remove an interface that another program has made under the
// name. Without the namespace it runs for all, because a power cut may have brought such a
// record back. It runs for those that a repair was attaching again, whose addresses are kept.
func forgetPlanned(o *operation.Operation, path string, attachments []state.Attachment) (begun []state.Attachment, err error) {
	for _, a := range attachments {
		if path == "" || !a.Planned || a.FormerResult != nil {
			begun = append(begun, a)
			continue
		}
		if err := o.Lock.Delete(a.Interface); err != nil {
			return nil, err
		}
	}
	return begun, nil
}

// markDeleting records that DEL begins, for all attachments at once: until the last one is
// removed, those that are left of a batch do not count as the whole.
func markDeleting(o *operation.Operation, attachments []state.Attachment) {
	var marked, first []state.Attachment
	for i := range attachments {
		a := &attachments[i]
		if a.Phase == state.Pending {
			continue
		}
		again := a.Phase == state.Deleting
		a.Phase, a.Attempts, a.Updated = state.Deleting, 0, time.Now().UTC()
		marked = append(marked, *a)
		if !again {
			first = append(first, *a)
		}
	}
	err := o.Lock.Write(marked...)
	if err != nil { // a full disk has room for a short line
		err = o.Lock.WriteDeleting(first...)
	}
	if err != nil { // it must not keep anything attached
		o.Log.Warn("the record does not say that DEL begins", "error", err)
	}
}

// detach runs DEL. The record of an attachment whose plugins are executed is deleted at once:
// after a kill DEL would remove an interface that another program has given the same name.
func detach(ctx context.Context, o *operation.Operation, a *state.Attachment, path string, is inspect.Absence) (*operation.Call, error) {
	a.Attempts++
	list, err := onrecord.List(*a)
	switch {
	case err != nil:
		o.Work().Undo(ctx, *a)
	case slices.Contains(onrecord.InnerMasterPlugins, list.Plugins[0].Network.Type):
		err = removeStray(ctx, o, *a, list, path)
	}
	if err != nil {
		return nil, o.Failure("detach", *a, a.Attempts, err)
	}
	c, err := Del(ctx, o, *a, list, path, is)
	switch {
	case err != nil:
		return c, o.Failure("detach", *a, a.Attempts, err)
	case c.Changes == nil:
		return c, forgetIsolated(ctx, o, *a, func() error { return forgetDetached(o, *a, c.List, is) })
	}
	return c, nil
}

// forgetIsolated calls forget, after which an attachment that has been removed is not on record. While it was removed, host and namespaces may have got anew
// all that was. They may have taken all the time of the call.
func forgetIsolated(ctx context.Context, o *operation.Operation, a state.Attachment, forget func() error) error {
	ctx, stop := cleaning(ctx, o.Config.CallTimeout)
	defer stop()
	release, err := isolate.Hold(ctx, o)
	if err != nil {
		return o.Failure("detach", a, a.Attempts, err)
	}
	defer release()
	if err := isolate.Forget(ctx, o, a); err != nil {
		return o.Failure("detach", a, a.Attempts, err)
	}
	return forget()
}

// suspects returns the attachments whose DEL failed, those whose interface was gone before, and those whose plugins
// did not find their rules.
func suspects(o *operation.Operation, attachments []state.Attachment, errs []error, absences map[string]inspect.Absence) []state.Suspect {
	var found []state.Suspect
	for i, a := range attachments {
		if is := absences[a.Interface]; errs[i] != nil || is != inspect.Present || o.Config.MadeByOtherIPTables(a) {
			found = append(found, suspect(a, errs[i], is))
		}
	}
	return found
}

func suspect(a state.Attachment, err error, is inspect.Absence) state.Suspect {
	return state.Suspect{Attachment: a, DelErr: err, Replaced: is == inspect.Replaced}
}

// removeLeftovers runs forced cleanup for the suspects and removes their records. Those that
// could not be cleaned up become pending.
func removeLeftovers(ctx context.Context, o *operation.Operation, suspects []state.Suspect) error {
	if len(suspects) == 0 {
		return nil
	}
	if why := Clean(ctx, o, suspects); why != nil {
		for _, s := range suspects {
			a := s.Attachment
			a.Phase, a.Error, a.Updated = state.Pending, why.Error(), time.Now().UTC()
			if err := o.Lock.WriteDurable(a); err != nil {
				return errors.Join(why, err)
			}
		}
		return why
	}
	for _, s := range suspects {
		forget := func() error { return o.Lock.Delete(s.Attachment.Interface) }
		if err := forgetIsolated(ctx, o, s.Attachment, forget); err != nil {
			return err
		}
	}
	return nil
}

// Clean runs forced cleanup. Without it the error is that of DEL.
func Clean(ctx context.Context, o *operation.Operation, suspects []state.Suspect) error {
	var failed error
	for _, s := range suspects {
		failed = errors.Join(failed, s.DelErr)
	}
	if o.Config.Cleaner == config.NoCleaner {
		return failed
	}
	if failed != nil {
		o.Log.Warn("DEL failed, running forced cleanup", "error", failed)
	}
	ctx, stop := cleaning(ctx, o.Config.CallTimeout)
	defer stop()
	leftover := state.Leftover{Allocation: o.Record.Allocation, Suspects: suspects}
	if err := o.Config.Force(ctx, o.Reason, []state.Leftover{leftover})[0]; err != nil {
		return errors.Join(failed, fmt.Errorf("forced cleanup: %w", err))
	}
	for _, s := range suspects {
		if s.DelErr == nil { // DEL has
			continue
		}
		if err := errors.Join(isolate.Remove(ctx, o, s.Attachment), isolate.Leave(ctx, o, s.Attachment)); err != nil {
			return errors.Join(failed, err)
		}
	}
	return nil
}

const leastCleanup = 10 * time.Second

// cleaning returns the context of forced cleanup, which has a limit unless ctx has one. It outlasts the deadline of
// ctx when too little of it is left, but not a cancellation.
func cleaning(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if deadline, ok := ctx.Deadline(); ok {
		limit = time.Until(deadline)
	}
	limit = max(limit, leastCleanup)
	cause := fmt.Errorf("forced cleanup was not done within %s: %w", operation.Round(limit), context.DeadlineExceeded)
	limited, stop := context.WithTimeoutCause(context.WithoutCancel(ctx), limit, cause)
	cancelled, cancel := context.WithCancelCause(limited)
	follow := func() {
		if errors.Is(ctx.Err(), context.Canceled) {
			cancel(context.Cause(ctx))
		}
	}
	follow() // AfterFunc calls it later, also when ctx has ended
	ignore := context.AfterFunc(ctx, follow)
	return cancelled, func() {
		ignore()
		cancel(nil)
		stop()
	}
}

// withoutRoutesByEachOther returns attachments that are removed together without their
// previous routes on each other's interfaces. One that cannot be removed now is recorded
// again, when another attachment may soon have the name of a removed interface.
func withoutRoutesByEachOther(attachments []state.Attachment) []state.Attachment {
	removed := slices.Clone(attachments)
	for i := range removed {
		removed[i].PreviousRoutes = slices.DeleteFunc(slices.Clone(removed[i].PreviousRoutes), func(r netns.Route) bool {
			return slices.ContainsFunc(attachments, func(a state.Attachment) bool { return a.Interface == r.Interface })
		})
	}
	return removed
}

// absences compares attachments with the namespace before DEL.
func absences(o *operation.Operation, path string, attachments []state.Attachment) map[string]inspect.Absence {
	interfaces, err := interfaces(o)
	return inspect.Absences(path, interfaces, err, attachments, o.Config.Cleaner.Covers)
}

func interfaces(o *operation.Operation) ([]netns.Interface, error) {
	ns, err := o.Namespace()
	if err != nil {
		return nil, err
	}
	return ns.Interfaces()
}
