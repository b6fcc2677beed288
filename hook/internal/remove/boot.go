// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package remove

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/allocnet/allocnet/hook/internal/config"
	"github.com/allocnet/allocnet/hook/internal/operation"
	"github.com/allocnet/allocnet/state"
)

// bootBatch is how many allocations are cleaned up at once. Each is locked
// meanwhile, with an open file.
const bootBatch = 250

var errEarlierBoot = errors.New("was set up in an earlier boot, and only its plugins know what they left")

// bootDue tells whether cleanBoot has something to do. In a container it has not:
// a container may have a boot ID of its own, and live allocations of the host would look
// like those of an earlier boot.
func bootDue(e *operation.Env) (due bool, boot string, err error) {
	if boot, err = state.BootID(); err != nil {
		return false, "", err
	}
	if cleaned, err := e.Store.CleanedBoot(); err != nil || cleaned == boot {
		return false, boot, err
	}
	if err := e.Config.Host.Outside(); err != nil {
		e.Config.Logger.Debug("what earlier boots left is not looked for", "error", err)
		return false, boot, nil
	}
	return true, boot, nil
}

// CleanBoot removes, once in a boot, what earlier boots have on record:
// namespaces, links and most rules are gone with the boot, but addresses are
// leased still. What a cleaner knows is removed without running plugins, of many
// allocations at once; the others become pending.
func CleanBoot(ctx context.Context, e *operation.Env) error {
	if due, _, err := bootDue(e); err != nil || !due {
		return err
	}
	unlock, err := e.Store.LockCleaning(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	due, boot, err := bootDue(e)
	if err != nil || !due { // another process has done it
		return err
	}
	ids, err := e.Store.IDs()
	if err != nil {
		return err
	}
	for part := range slices.Chunk(ids, bootBatch) {
		if err := cleanBatch(ctx, e, part, boot); err != nil {
			return err
		}
	}
	return e.Store.SetCleanedBoot(boot)
}

// TryCleanBoot is CleanBoot for callers that it does not fail: what fails stays on record.
func TryCleanBoot(ctx context.Context, e *operation.Env) {
	if err := CleanBoot(ctx, e); err != nil {
		e.Config.Logger.Warn("what earlier boots left is not removed yet", "error", err)
	}
}

// cleanBatch does so for some allocations. Their records go last, so another
// process can go on when this one is killed.
func cleanBatch(ctx context.Context, e *operation.Env, ids []string, boot string) error {
	var covered, others []*operation.Operation
	defer func() {
		for _, o := range slices.Concat(covered, others) {
			o.End()
		}
	}()
	for _, id := range ids {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		switch o, err := e.TryBegin(id); {
		case errors.Is(err, state.ErrLocked): // the call that has the lock tears it down
		case err != nil:
			e.Config.Logger.Warn("a record of an earlier boot is left", "allocation", id, "error", err)
		case o.Record.Allocation.BootID == "" || o.Record.Allocation.BootID == boot || o.IsLost():
			o.End()
		case isCovered(o):
			covered = append(covered, o)
		default:
			others = append(others, o)
		}
	}
	if err := dropCovered(ctx, e, covered); err != nil {
		return err
	}
	for _, o := range others {
		leaveToRetry(o, errEarlierBoot)
	}
	return nil
}

// isCovered tells whether the cleaner removes all that the allocation left.
func isCovered(o *operation.Operation) bool {
	return len(o.Record.Damaged) == 0 &&
		!slices.ContainsFunc(o.Record.Attachments, func(a state.Attachment) bool { return !o.Config.Cleaner.Covers(a) })
}

func dropCovered(ctx context.Context, e *operation.Env, covered []*operation.Operation) error {
	if len(covered) == 0 {
		return nil
	}
	leftovers := make([]state.Leftover, len(covered))
	for i, o := range covered {
		leftovers[i] = leftover(o)
	}
	e.Config.Logger.Info("removing what an earlier boot left", "allocations", len(leftovers))
	errs := e.Config.Force(ctx, config.ReasonBoot, leftovers)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	for i, o := range covered {
		err := errs[i]
		if err == nil && o.Record.Allocation.NetnsOwned { // the file at which it was pinned is there still
			err = removeNamespace(o)
		}
		if err == nil {
			err = o.Lock.Clear()
		}
		if err != nil {
			leaveToRetry(o, err)
		}
	}
	return nil
}

// leftover is the whole allocation, for a cleaner that knows all its plugins: no DEL
// was run.
func leftover(o *operation.Operation) state.Leftover {
	l := state.Leftover{Allocation: o.Record.Allocation}
	for _, a := range o.Record.Attachments {
		l.Suspects = append(l.Suspects, state.Suspect{Attachment: a})
	}
	return l
}

// leaveToRetry makes the attachments pending, for RetryPending and GC. It need
// not outlast a power cut, after which all are of an earlier boot again.
func leaveToRetry(o *operation.Operation, why error) {
	err := o.Lock.AddPending()
	for _, a := range o.Record.Attachments {
		a.Phase, a.Error, a.Attempts, a.Updated = state.Pending, why.Error(), 0, time.Now().UTC()
		err = errors.Join(err, o.Lock.Write(a))
	}
	if err != nil {
		o.Log.Warn("a record of an earlier boot is left as it is", "error", err)
	}
}
