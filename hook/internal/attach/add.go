// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package attach

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/types"

	"github.com/allocnet/allocnet/hook/internal/config"
	"github.com/allocnet/allocnet/hook/internal/isolate"
	"github.com/allocnet/allocnet/hook/internal/lease"
	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/hook/internal/operation"
	"github.com/allocnet/allocnet/hook/internal/plan"
	"github.com/allocnet/allocnet/hook/internal/remove"
	"github.com/allocnet/allocnet/hook/internal/step"
	"github.com/allocnet/allocnet/internal/cniexec"
	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/internal/inprocess/plugin"
	"github.com/allocnet/allocnet/state"
)

// maxAttempts is how often an attachment is tried.
const maxAttempts = 3

// tryLaterWindow is the time after the first attempt began in which another one begins if a plugin
// says that it cannot have something now (CNI code 11). It has waited for it itself, and may do so
// again each time, while the caller can do something else and come back.
const tryLaterWindow = 5 * time.Second

// Add runs ADD for one attachment, whose conflist is decoded, and again after transient failures. abort ends when
// another attachment failed: then no further call starts. What the chain left is to be
// committed when all attachments have been added.
func Add(ctx, abort context.Context, o *operation.Operation, a *state.Attachment, list *libcni.NetworkConfigList) (*operation.Call, error) {
	log := o.AttachmentLog(*a)
	var first error
	started := time.Now()
	for a.Attempts < maxAttempts {
		if abort.Err() != nil {
			return nil, o.Failure("attach", *a, a.Attempts, abortError(abort, first))
		}
		a.Attempts++
		c, err := addOnce(ctx, abort, o, a, list)
		o.Notify(plan.Step{Network: a.Network, Interface: a.Interface, Attempt: a.Attempts, Of: maxAttempts, Err: err})
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
		o.Config.Report(o.Observation(config.OpRetry, *a, a.Attempts, started, err))
		log.Warn("attach failed, trying again", "attempt", a.Attempts, "of", maxAttempts, "in", pause.Round(time.Millisecond).String(), "error", err)
		if o.Config.Pause(abort, pause) != nil {
			return nil, o.Failure("attach", *a, a.Attempts, abortError(abort, first))
		}
		// What failed ADD may fail DEL, too, until the pause is over. On what it leaves, ADD fails for good.
		if err := remove.UndoAdd(ctx, o, a, list); err != nil {
			log.Warn("DEL before the next attempt failed", "error", err)
		}
	}
	return nil, o.Failure("attach", *a, a.Attempts, first)
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

func addOnce(ctx, abort context.Context, o *operation.Operation, a *state.Attachment, list *libcni.NetworkConfigList) (*operation.Call, error) {
	a.Result = nil
	path := o.Record.Allocation.Netns
	if a.Planned { // else a link has the name that is on record
		if err := isolate.Choose(o, a); err != nil {
			return nil, err
		}
	}
	c, err := o.Call(*a, list, path, &operation.Adding{
		Partial: func(result []byte) { recordPartialResult(o, a, result) },
		Seams:   plugin.Seams{Isolation: isolate.Seam(ctx, o, a), Lease: lease.Seam(o, a)},
	})
	if err != nil {
		return nil, err
	}
	var result types.Result
	w, call := o.Work(), step.Call{Attachment: *a, List: c.List, Recorded: list, InProcess: c.Changes != nil}
	err = w.Add(ctx, call, func() (err error) {
		if err := recordBegun(abort, o, a); err != nil {
			return err
		}
		if err := isolate.Close(ctx, o, *a); err != nil {
			return err
		}
		result, err = c.CNI.AddNetworkList(ctx, c.List, o.RuntimeConf(*a, list, path))
		return err
	})
	if err != nil {
		return nil, err
	}
	if a.Result, err = onrecord.EncodeResult(result, c.List.CNIVersion); err != nil {
		return nil, err
	}
	if err := isolate.Readmit(ctx, o, a); err != nil {
		return nil, err
	}
	call.Attachment = *a
	return c, w.CheckResult(call)
}

// commitAdded makes what the chains of attachments have left. Their results, which DEL needs
// to remove it, are in libcni's cache by now.
func commitAdded(ctx context.Context, o *operation.Operation, p *plan.Plan, chains []*operation.Call) error {
	errs := o.Commit(ctx, chains...)
	for i, err := range errs {
		a := p.Added[i].Attachment
		a.RuleHandles = chains[i].RuleHandles()
		if err != nil {
			errs[i] = o.Failure("attach", *a, a.Attempts, err)
		}
	}
	return errors.Join(errs...)
}

// recordBegun records that ADD begins, unless the record says so. It does not begin when
// abort has ended, which may have happened while the MTU of bridges was pinned.
func recordBegun(abort context.Context, o *operation.Operation, a *state.Attachment) error {
	if abort.Err() != nil {
		return fmt.Errorf("not attempted: %w", context.Cause(abort))
	}
	if !a.Planned {
		return nil
	}
	begun := *a
	begun.Planned = false
	if err := o.Lock.Write(begun); err != nil {
		return err
	}
	a.Planned = false
	return nil
}

// recordPartialResult records the result of the chain so far, before its next plugin
// runs. libcni caches a result only when the whole chain has succeeded, and without one
// the DEL of the firewall plugin removes nothing.
func recordPartialResult(o *operation.Operation, a *state.Attachment, result []byte) {
	if _, err := onrecord.ParseResult(result); err != nil {
		return // libcni reports it
	}
	a.Result = result
	if err := o.Lock.Write(*a); err != nil {
		o.AttachmentLog(*a).Warn("partial result of the chain is not recorded", "error", err)
	}
}

// isOver tells whether no attempt follows one that failed, after a pause.
func isOver(err error, attempts int, began time.Time, pause time.Duration) bool {
	var failed *types.Error
	late := errors.As(err, &failed) && failed.Code == types.ErrTryAgainLater && time.Since(began)+pause > tryLaterWindow
	return attempts >= maxAttempts || late || !cniexec.Transient(err)
}

// delay is the pause before the next try: 1 s and up to 1 s of jitter, so that
// the allocations of a host that failed together do not try together.
func delay() time.Duration {
	return time.Second + rand.N(time.Second)
}
