// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/allocnet/allocnet/hook/internal/inspect"
	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/state"
)

// Teardown removes every attachment of the allocation; see Hook.
func (e *Engine) Teardown(ctx context.Context, id string) error {
	return e.teardownBecause(ctx, id, "")
}

// teardownBecause is Teardown for a reason.
func (e *Engine) teardownBecause(ctx context.Context, id string, reason Reason) error {
	started := time.Now()
	o, err := e.begin(ctx, id)
	if err == nil {
		defer o.end()
		o.reason = reason
		err = o.teardown(ctx)
	}
	e.reportDetach(id, started, err)
	return err
}

// ErrAlive is an allocation that is alive, or may be.
var ErrAlive = errdefs.New(errdefs.Refused, "is not dead")

// TearDownDead is Teardown of a dead allocation. One that is set up in an existing
// namespace is ErrAlive, and so is one with a damaged record, unless its readable lines
// prove that the namespace is gone.
func (e *Engine) TearDownDead(ctx context.Context, id string) error {
	started := time.Now()
	err := e.tearDownIfDead(ctx, id)
	e.reportDetach(id, started, err)
	return err
}

func (e *Engine) tearDownIfDead(ctx context.Context, id string) error {
	o, err := e.begin(ctx, id)
	if err != nil {
		return err
	}
	defer o.end()
	if err := o.alive(); err != nil {
		return err
	}
	return o.teardown(ctx)
}

// Forget is TearDownDead for leftovers that nothing can remove: the record goes also if an object of
// it cannot be removed, or no attachment of it can be read. A damaged file is kept. An allocation that
// is not dead is refused, in the same moment: it may have been set up since the caller looked.
func (e *Engine) Forget(ctx context.Context, id string) error {
	started := time.Now()
	err := e.forgetIfDead(ctx, id)
	e.reportDetach(id, started, err)
	return err
}

func (e *Engine) forgetIfDead(ctx context.Context, id string) error {
	o, err := e.begin(ctx, id)
	if err != nil {
		return err
	}
	defer o.end()
	if !o.isLost() {
		if err := o.alive(); err != nil {
			return err
		}
		if err = o.teardown(ctx); err == nil {
			return nil
		}
		if errors.Is(ctx.Err(), context.Canceled) { // a further call may remove it
			return errors.Join(err, ctx.Err())
		}
		o.log.Warn("the record is dropped although not all of it was removed", "error", err)
	} else if path, err := o.namespacePath(); path != "" || err != nil {
		return cmp.Or(err, o.inUse(path))
	}
	o.setDamageAside()
	return o.lock.Clear()
}

// alive returns why the allocation does not count as dead.
func (o *operation) alive() error {
	if o.isUnknown() {
		return errdefs.As(errdefs.Refused, fmt.Errorf("allocation %s %w: %w", o.record.Allocation.ID, ErrAlive, o.damagedRecord(nil)))
	}
	recorded := o.hasRecord()
	if err := o.loadFromCache(); err != nil {
		return err
	}
	path, err := o.namespacePath()
	if err != nil {
		return err
	}
	if path != "" && (o.isSetUp() || !recorded) {
		return o.inUse(path)
	}
	return nil
}

func (o *operation) inUse(path string) error {
	id := o.record.Allocation.ID
	return fmt.Errorf("allocation %s %w: its namespace %s exists: to tear it down anyway: allocnet detach %s", id, ErrAlive, path, id)
}

// teardown removes the attachments of the record, or of libcni's cache where the record
// is lost. Attachments that cannot be removed stay on record as pending.
func (o *operation) teardown(ctx context.Context) error {
	if err := o.loadFromCache(); err != nil {
		return err
	}
	return o.removeRecorded(ctx)
}

// removeRecorded removes the attachments of the record alone.
func (o *operation) removeRecorded(ctx context.Context) error {
	if !o.hasRecord() {
		return o.lock.Clear()
	}
	if o.isLost() {
		return o.damagedRecord(nil)
	}
	o.setDamageAside()
	if err := o.waitForOrphans(ctx); err != nil {
		return err
	}
	path, err := o.findNamespace()
	if err != nil {
		return err
	}
	if err := o.detachAll(ctx, path, o.record.Attachments); err != nil {
		return errors.Join(err, o.restoreAfterRemoval())
	}
	if err := o.leaveNamespace(); err != nil {
		return err
	}
	return o.lock.Clear()
}

// detachAll runs DEL for attachments, the newest first where the order matters. It
// continues after a failure, and forced cleanup removes what DEL left.
func (o *operation) detachAll(ctx context.Context, path string, attachments []state.Attachment) error {
	attachments, err := o.forgetPlanned(path, attachments)
	if err != nil || len(attachments) == 0 {
		return err
	}
	if err := o.holdForPlugins(); err != nil {
		return err
	}
	o.config.cache().RecallResults(attachments)
	absences := o.absences(path, attachments)
	o.markDeleting(attachments)
	if err := o.work().Keep(attachments); err != nil { // it must not keep anything attached
		o.log.Warn("resolv.conf still has the DNS of detached networks", "error", err)
	}
	dels, stop := phase(ctx, delShare, "DEL")
	defer stop()
	attachments = withoutRoutesByEachOther(attachments)
	errs, chains := make([]error, len(attachments)), make([]*chain, len(attachments))
	inOrder(dels, len(attachments), func(i int) []int { return onrecord.Successors(attachments, i) }, func(i int) {
		errs[i] = o.instrument(OpDetach, &attachments[i], func() (err error) {
			chains[i], err = o.detach(dels, &attachments[i], path, absences[attachments[i].Interface])
			return err
		})
	})
	o.commitDetached(dels, attachments, chains, errs, absences)
	if path != "" {
		o.cleanReplaced(ctx, attachments, chains, errs, absences)
	}
	return o.removeLeftovers(ctx, o.config.suspects(attachments, errs, absences))
}

// cleanReplaced runs forced cleanup for attachments that were removed in process in place of their
// plugins, each by itself: the failure of another one does not keep its record, because a
// further DEL would remove an interface that another program has given the same name.
func (o *operation) cleanReplaced(ctx context.Context, attachments []state.Attachment, chains []*chain, errs []error, absences map[string]inspect.Absence) {
	for i, a := range attachments {
		if errs[i] == nil && replaces(chains[i].changes, a) {
			errs[i] = o.removeLeftovers(ctx, []state.Suspect{suspect(a, nil, absences[a.Interface])})
		}
	}
}

// commitDetached makes what the chains of DEL have left, also of those that failed: a plugin
// removes what it can. It adds the errors.
func (o *operation) commitDetached(ctx context.Context, attachments []state.Attachment, chains []*chain, errs []error, absences map[string]inspect.Absence) {
	for i, err := range o.config.commit(ctx, o.hold, o.log, chains...) {
		switch {
		case err != nil:
			errs[i] = errors.Join(errs[i], o.failure("detach", attachments[i], attachments[i].Attempts, err))
		case errs[i] == nil && chains[i].changes != nil && !replaces(chains[i].changes, attachments[i]):
			errs[i] = o.forgetDetached(attachments[i], absences[attachments[i].Interface])
		}
	}
}

// forgetDetached deletes the record of an attachment that DEL has removed, unless forced
// cleanup follows: see suspects.
func (o *operation) forgetDetached(a state.Attachment, is inspect.Absence) error {
	if err := o.requireReleased(a, is); err != nil {
		return o.failure("detach", a, a.Attempts, err)
	}
	o.attachmentLog(a).Info("detached")
	if is != inspect.Present || o.config.madeByOtherIPTables(a) {
		return nil
	}
	return o.lock.Delete(a.Interface)
}

// forgetPlanned deletes the records of attachments whose ADD has not begun, and returns
// the others: DEL could remove an interface that another program has made under the
// name. Without the namespace it runs for all, because a power cut may have brought such a
// record back. It runs for those that a repair was attaching again, whose addresses are kept.
func (o *operation) forgetPlanned(path string, attachments []state.Attachment) (begun []state.Attachment, err error) {
	for _, a := range attachments {
		if path == "" || !a.Planned || a.FormerResult != nil {
			begun = append(begun, a)
			continue
		}
		if err := o.lock.Delete(a.Interface); err != nil {
			return nil, err
		}
	}
	return begun, nil
}

// markDeleting records that DEL begins, for all attachments at once: until the last one is
// removed, those that are left of a batch do not count as the whole.
func (o *operation) markDeleting(attachments []state.Attachment) {
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
	err := o.lock.Write(marked...)
	if err != nil { // a full disk has room for a short line
		err = o.lock.WriteDeleting(first...)
	}
	if err != nil { // it must not keep anything attached
		o.log.Warn("the record does not say that DEL begins", "error", err)
	}
}

// detach runs DEL. The record of an attachment whose plugins are executed is deleted at once:
// after a kill DEL would remove an interface that another program has given the same name.
func (o *operation) detach(ctx context.Context, a *state.Attachment, path string, is inspect.Absence) (*chain, error) {
	a.Attempts++
	if hasMaster(*a) {
		if err := o.removeStray(ctx, *a, path); err != nil {
			return nil, o.failure("detach", *a, a.Attempts, err)
		}
	}
	c, err := o.del(ctx, *a, path, is)
	switch {
	case err != nil:
		return c, o.failure("detach", *a, a.Attempts, err)
	case c.changes == nil:
		return c, o.forgetDetached(*a, is)
	}
	return c, nil
}

// suspects returns the attachments whose DEL failed, those whose interface was gone before, and those whose plugins
// did not find their rules.
func (c Config) suspects(attachments []state.Attachment, errs []error, absences map[string]inspect.Absence) []state.Suspect {
	var found []state.Suspect
	for i, a := range attachments {
		if is := absences[a.Interface]; errs[i] != nil || is != inspect.Present || c.madeByOtherIPTables(a) {
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
func (o *operation) removeLeftovers(ctx context.Context, suspects []state.Suspect) error {
	if len(suspects) == 0 {
		return nil
	}
	if err := o.clean(ctx, suspects); err != nil {
		return o.markPending(suspects, err)
	}
	for _, s := range suspects {
		if err := o.lock.Delete(s.Attachment.Interface); err != nil {
			return err
		}
	}
	return nil
}

func (o *operation) clean(ctx context.Context, suspects []state.Suspect) error {
	var failed error
	for _, s := range suspects {
		failed = errors.Join(failed, s.DelErr)
	}
	if o.config.Cleaner == NoCleaner {
		return failed
	}
	if failed != nil {
		o.log.Warn("DEL failed, running forced cleanup", "error", failed)
	}
	ctx, stop := o.config.cleaning(ctx)
	defer stop()
	leftover := state.Leftover{Allocation: o.record.Allocation, Suspects: suspects}
	if err := o.config.force(ctx, o.reason, []state.Leftover{leftover})[0]; err != nil {
		return errors.Join(failed, fmt.Errorf("forced cleanup: %w", err))
	}
	return nil
}

// markPending records the attachments that remain to be torn down, and returns why.
func (o *operation) markPending(suspects []state.Suspect, why error) error {
	for _, s := range suspects {
		a := s.Attachment
		a.Phase, a.Error, a.Updated = state.Pending, why.Error(), time.Now().UTC()
		if err := o.lock.WriteDurable(a); err != nil {
			return errors.Join(why, err)
		}
	}
	return why
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
func (o *operation) absences(path string, attachments []state.Attachment) map[string]inspect.Absence {
	interfaces, err := o.interfaces()
	return inspect.Absences(path, interfaces, err, attachments, o.config.Cleaner.Covers)
}

func (o *operation) interfaces() ([]netns.Interface, error) {
	ns, err := o.namespace()
	if err != nil {
		return nil, err
	}
	return ns.Interfaces()
}
