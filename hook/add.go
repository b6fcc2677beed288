// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/allocnet/allocnet/hook/internal/inspect"
	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/hook/internal/plan"
	"github.com/allocnet/allocnet/hook/internal/step"
	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/state"
)

// add runs ADD for one attachment, and again after transient failures. abort ends when
// another attachment failed: then no further call starts. What the chain left is to be
// committed when all attachments have been added.
func (o *operation) add(ctx, abort context.Context, a *state.Attachment) (*chain, error) {
	log := o.attachmentLog(*a)
	var first error
	started := time.Now()
	for a.Attempts < maxAttempts {
		if abort.Err() != nil {
			return nil, o.failure("attach", *a, a.Attempts, abortError(abort, first))
		}
		a.Attempts++
		c, err := o.addOnce(ctx, abort, a)
		o.notify(Step{Network: a.Network, Interface: a.Interface, Attempt: a.Attempts, Of: maxAttempts, Err: err})
		if err == nil {
			log.Info("attached", "attempts", a.Attempts)
			return c, nil // finish records it when all others are attached, too
		}
		if first == nil {
			first = err
		}
		pause := delay()
		if isOver(err, a.Attempts, started, pause) {
			break
		}
		o.config.report(o.observation(OpRetry, *a, a.Attempts, started, err))
		log.Warn("attach failed, trying again", "attempt", a.Attempts, "of", maxAttempts, "in", pause.Round(time.Millisecond).String(), "error", err)
		if o.config.pause(abort, pause) != nil {
			return nil, o.failure("attach", *a, a.Attempts, abortError(abort, first))
		}
		// What failed ADD may fail DEL, too, until the pause is over. On what it leaves, ADD fails for good.
		if err := o.undoAdd(ctx, a); err != nil {
			log.Warn("DEL before the next attempt failed", "error", err)
		}
	}
	return nil, o.failure("attach", *a, a.Attempts, first)
}

// abortError is the error of an attachment whose attempts were aborted; first is that of
// its first attempt, nil if there was none.
func abortError(abort context.Context, first error) error {
	cause := context.Cause(abort)
	if first == nil {
		return fmt.Errorf("not attempted: %w", cause)
	}
	return errdefs.As(errdefs.Of(cause), fmt.Errorf("aborted (%w) after: %w", cause, first))
}

func (o *operation) addOnce(ctx, abort context.Context, a *state.Attachment) (*chain, error) {
	a.Result = nil
	path := o.record.Allocation.Netns
	c, err := o.chain(*a, path, func(result []byte) { o.recordPartialResult(a, result) })
	if err != nil {
		return nil, err
	}
	var result types.Result
	w := o.work()
	err = w.Add(ctx, step.Call{Attachment: *a, List: c.list, InProcess: c.changes != nil}, func() (err error) {
		if err := o.recordBegun(abort, a); err != nil {
			return err
		}
		result, err = c.cni.AddNetworkList(ctx, c.list, o.runtimeConf(*a, path))
		return err
	})
	if err != nil {
		return nil, err
	}
	if a.Result, err = onrecord.EncodeResult(result, c.list.CNIVersion); err != nil {
		return nil, err
	}
	return c, w.CheckResult(*a)
}

// commitAdded makes what the chains of attachments have left. Their results, which DEL needs
// to remove it, are in libcni's cache by now.
func (o *operation) commitAdded(ctx context.Context, p *plan.Plan, chains []*chain) error {
	errs := o.config.commit(ctx, o.hold, o.log, chains...)
	for i, err := range errs {
		if err != nil {
			a := p.Added[i].Attachment
			errs[i] = o.failure("attach", *a, a.Attempts, err)
		}
	}
	return errors.Join(errs...)
}

// recordBegun records that ADD begins, unless the record says so. It does not begin when
// abort has ended, which may have happened while the MTU of bridges was pinned.
func (o *operation) recordBegun(abort context.Context, a *state.Attachment) error {
	if abort.Err() != nil {
		return fmt.Errorf("not attempted: %w", context.Cause(abort))
	}
	if !a.Planned {
		return nil
	}
	begun := *a
	begun.Planned = false
	if err := o.lock.Write(begun); err != nil {
		return err
	}
	a.Planned = false
	return nil
}

// recordPartialResult records the result of the chain so far, before its next plugin
// runs. libcni caches a result only when the whole chain has succeeded, and without one
// the DEL of the firewall plugin removes nothing.
func (o *operation) recordPartialResult(a *state.Attachment, result []byte) {
	if _, err := onrecord.ParseResult(result); err != nil {
		return // libcni reports it
	}
	a.Result = result
	if err := o.lock.Write(*a); err != nil {
		o.attachmentLog(*a).Warn("partial result of the chain is not recorded", "error", err)
	}
}

// undoAdd runs DEL after an ADD that failed. Then ADD has not begun: DEL does not run again
// unless another attempt does.
func (o *operation) undoAdd(ctx context.Context, a *state.Attachment) error {
	if a.Planned { // pinning the MTU of a bridge failed
		return nil
	}
	undoing, stop := Undoing(ctx)
	defer stop()
	path, err := o.namespacePath()
	if err != nil {
		return err
	}
	is := o.absences(path, []state.Attachment{*a})[a.Interface]
	c, err := o.del(undoing, *a, path, is)
	if err := errors.Join(err, o.config.commit(undoing, o.hold, o.log, c)[0]); err != nil {
		return err
	}
	if is == inspect.Replaced {
		if err := o.clean(undoing, []state.Suspect{suspect(*a, nil, is)}); err != nil {
			return err
		}
	}
	return o.recordUndone(a)
}

// recordUndone records that nothing is left of an attachment.
func (o *operation) recordUndone(a *state.Attachment) error {
	undone := *a
	undone.Planned, undone.Result = true, nil
	if err := o.lock.Write(undone); err != nil {
		return err
	}
	*a = undone
	return nil
}

// del runs DEL with the arguments of ADD and the recorded result. What the chain left is to
// be committed. What plugins that are executed leave is an error of theirs, so that the lease stays, which is
// freed by the first of the chain and so last. It is not looked for where forced cleanup follows anyway.
func (o *operation) del(ctx context.Context, a state.Attachment, path string, is inspect.Absence) (*chain, error) {
	o.work().Undo(ctx, a)
	path = inspect.PathOf(path, is)
	c, err := o.chain(a, path, nil)
	if err != nil {
		return nil, err
	}
	if c.changes == nil && is == inspect.Present && !o.config.madeByOtherIPTables(a) {
		c.runner.Deleted = func(ctx context.Context, plugin string) error { return o.config.Cleaner.Left(ctx, a, plugin) }
	}
	if err := o.config.cache().RequireOwn(a); err != nil {
		return nil, err // libcni would pass the result of another attachment
	}
	if err := o.config.cache().Restore(a, o.record.Allocation.Netns); err != nil {
		o.attachmentLog(a).Warn("plugins get no prevResult", "error", err)
	}
	return c, c.cni.DelNetworkList(ctx, c.list, o.runtimeConf(a, path))
}
