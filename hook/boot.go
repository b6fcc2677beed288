// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/allocnet/allocnet/state"
)

const (
	// bootLimit is how long a call waits at most for what earlier boots left. What
	// is not done by then is left to RetryPending and GC.
	bootLimit = 2 * time.Second
	// bootBatch is how many allocations are cleaned up at once. Each is locked
	// meanwhile, with an open file.
	bootBatch = 250
)

var errEarlierBoot = errors.New("was set up in an earlier boot, and only its plugins know what they left")

// recoverBoot removes, before something new is attached, what earlier boots left.
// It never fails its caller: what fails stays on record.
func (e *Engine) recoverBoot(ctx context.Context) {
	ctx, stop := context.WithTimeout(ctx, bootLimit)
	defer stop()
	if err := e.cleanBoot(ctx); err != nil {
		e.config.Logger.Warn("what earlier boots left is not removed yet", "error", err)
	}
}

// bootDue tells whether cleanBoot has something to do. In a container it has not:
// a container may have a boot ID of its own, and live allocations of the host would look
// like those of an earlier boot.
func (e *Engine) bootDue() (due bool, boot string, err error) {
	if boot, err = state.BootID(); err != nil {
		return false, "", err
	}
	if cleaned, err := e.store.CleanedBoot(); err != nil || cleaned == boot {
		return false, boot, err
	}
	if err := e.config.Host.Outside(); err != nil {
		e.config.Logger.Debug("what earlier boots left is not looked for", "error", err)
		return false, boot, nil
	}
	return true, boot, nil
}

// cleanBoot removes, once in a boot, what earlier boots have on record:
// namespaces, links and most rules are gone with the boot, but addresses are
// leased still. What a cleaner knows is removed without running plugins, of many
// allocations at once; the others become pending.
func (e *Engine) cleanBoot(ctx context.Context) error {
	if due, _, err := e.bootDue(); err != nil || !due {
		return err
	}
	unlock, err := e.store.LockCleaning(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	due, boot, err := e.bootDue()
	if err != nil || !due { // another process has done it
		return err
	}
	ids, err := e.store.IDs()
	if err != nil {
		return err
	}
	for part := range slices.Chunk(ids, bootBatch) {
		if err := e.cleanBatch(ctx, part, boot); err != nil {
			return err
		}
	}
	return e.store.SetCleanedBoot(boot)
}

// cleanBatch does so for some allocations. Their records go last, so another
// process can go on when this one is killed.
func (e *Engine) cleanBatch(ctx context.Context, ids []string, boot string) error {
	var covered, others []*operation
	defer func() {
		for _, o := range slices.Concat(covered, others) {
			o.end()
		}
	}()
	for _, id := range ids {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		switch o, err := e.tryBegin(id); {
		case errors.Is(err, state.ErrLocked): // the call that has the lock tears it down
		case err != nil:
			e.config.Logger.Warn("a record of an earlier boot is left", "allocation", id, "error", err)
		case o.record.Allocation.BootID == "" || o.record.Allocation.BootID == boot || o.isLost():
			o.end()
		case o.covered():
			covered = append(covered, o)
		default:
			others = append(others, o)
		}
	}
	if err := e.dropCovered(ctx, covered); err != nil {
		return err
	}
	for _, o := range others {
		o.leaveToRetry(errEarlierBoot)
	}
	return nil
}

// covered tells whether the cleaner removes all that the allocation left.
func (o *operation) covered() bool {
	return len(o.record.Damaged) == 0 &&
		!slices.ContainsFunc(o.record.Attachments, func(a state.Attachment) bool { return !o.config.Cleaner.Covers(a) })
}

func (e *Engine) dropCovered(ctx context.Context, covered []*operation) error {
	if len(covered) == 0 {
		return nil
	}
	leftovers := make([]state.Leftover, len(covered))
	for i, o := range covered {
		leftovers[i] = o.leftover()
	}
	e.config.Logger.Info("removing what an earlier boot left", "allocations", len(leftovers))
	errs := e.config.force(ctx, ReasonBoot, leftovers)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	for i, o := range covered {
		err := errs[i]
		if err == nil {
			err = o.forgetBoot()
		}
		if err != nil {
			o.leaveToRetry(err)
		}
	}
	return nil
}

// leftover is the whole allocation, for a cleaner that knows all its plugins: no DEL
// was run.
func (o *operation) leftover() state.Leftover {
	l := state.Leftover{Allocation: o.record.Allocation}
	for _, a := range o.record.Attachments {
		l.Suspects = append(l.Suspects, state.Suspect{Attachment: a})
	}
	return l
}

// forgetBoot drops the record, and the file at which its own namespace was pinned.
func (o *operation) forgetBoot() error {
	if o.record.Allocation.NetnsOwned {
		if err := o.removeNamespace(); err != nil {
			return err
		}
	}
	return o.lock.Clear()
}

// leaveToRetry makes the attachments pending, for RetryPending and GC. It need
// not outlast a power cut, after which all are of an earlier boot again.
func (o *operation) leaveToRetry(why error) {
	err := o.lock.AddPending()
	for _, a := range o.record.Attachments {
		a.Phase, a.Error, a.Attempts, a.Updated = state.Pending, why.Error(), 0, time.Now().UTC()
		err = errors.Join(err, o.lock.Write(a))
	}
	if err != nil {
		o.log.Warn("a record of an earlier boot is left as it is", "error", err)
	}
}
