// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package remove

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/containernetworking/cni/libcni"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/hook/internal/inspect"
	"github.com/allocnet/allocnet/hook/internal/isolate"
	"github.com/allocnet/allocnet/hook/internal/lease"
	"github.com/allocnet/allocnet/hook/internal/operation"
	"github.com/allocnet/allocnet/state"
)

// UndoAdd runs DEL after an ADD that failed. Then ADD has not begun: DEL does not run again
// unless another attempt does.
func UndoAdd(ctx context.Context, o *operation.Operation, a *state.Attachment, list *libcni.NetworkConfigList) error {
	if a.Planned { // pinning the MTU of a bridge failed
		return nil
	}
	undoing, stop := operation.Undoing(ctx)
	defer stop()
	path, err := o.NamespacePath()
	if err != nil {
		return err
	}
	is := absences(o, path, []state.Attachment{*a})[a.Interface]
	c, err := Del(undoing, o, *a, list, path, is)
	if err := errors.Join(err, o.Commit(undoing, c)[0]); err != nil {
		return err
	}
	if is == inspect.Replaced {
		if err := Clean(undoing, o, []state.Suspect{suspect(*a, nil, is)}); err != nil {
			return err
		}
	}
	return RecordUndone(undoing, o, a)
}

// RecordUndone records that nothing is left of an attachment.
func RecordUndone(ctx context.Context, o *operation.Operation, a *state.Attachment) error {
	undone := *a
	undone.Planned, undone.Result, undone.RuleHandles = true, nil, nil
	lease.Release(&undone)
	if i := a.Isolation; i != nil {
		undone.Isolation = i.Unplaced()
	}
	err := forgetIsolated(ctx, o, *a, func() error { return o.Lock.Write(undone) })
	if err == nil {
		*a = undone
	}
	return err
}

// Del runs DEL with the arguments of ADD and the recorded result. What the chain left is to
// be committed. What plugins that are executed leave is an error of theirs, so that the lease stays, which is
// freed by the first of the chain and so last. It is not looked for where forced cleanup follows anyway.
func Del(ctx context.Context, o *operation.Operation, a state.Attachment, list *libcni.NetworkConfigList, path string, is inspect.Absence) (*operation.Call, error) {
	o.Work().Undo(ctx, a)
	path = inspect.PathOf(path, is)
	lease.PrepareRelease(ctx, o, a, path)
	c, err := o.Call(a, list, path, nil)
	if err != nil {
		return nil, err
	}
	if c.Changes == nil && is == inspect.Present && !o.Config.MadeByOtherIPTables(a) {
		of := map[string]int{}
		for _, p := range list.Plugins {
			of[p.Network.Type]++
		}
		c.Runner.Deleted = func(ctx context.Context, plugin string) error {
			if of[plugin]--; of[plugin] > 0 { // what is left is that of one before it in the chain
				return nil
			}
			return o.Config.Cleaner.Left(ctx, a, plugin)
		}
	}
	if err := o.Config.Cache().RequireOwn(a); err != nil {
		return nil, err // libcni would pass the result of another attachment
	}
	if err := o.Config.Cache().Restore(a, o.Record.Allocation.Netns); err != nil {
		o.AttachmentLog(a).Warn("plugins get no prevResult", "error", err)
	}
	leave := func(ctx context.Context) error { return isolate.Leave(ctx, o, a) }
	if c.Changes != nil {
		c.Changes.Unlinked = append(c.Changes.Unlinked, func(ctx context.Context) error { return isolate.Remove(ctx, o, a) }, leave)
		return c, c.CNI.DelNetworkList(ctx, c.List, o.RuntimeConf(a, list, path))
	}
	if err := isolate.Remove(ctx, o, a); err != nil { // plugins release addresses themselves
		return nil, err
	}
	if err := c.CNI.DelNetworkList(ctx, c.List, o.RuntimeConf(a, list, path)); err != nil {
		return c, err
	}
	return c, leave(ctx)
}

// requireReleased looks for what a DEL that reports success has left: host-local and libcni report no file that
// they cannot remove, and host-device takes any interface of the name for its device. What is found is removed by forced
// cleanup, or stays on record as pending.
func requireReleased(o *operation.Operation, a state.Attachment, list *libcni.NetworkConfigList, is inspect.Absence) error {
	n := cniconf.Network{Name: list.Name, List: list}
	var left []error
	for _, l := range operation.LeasesOf(a, n.Pools()) {
		if l.Plugin == operation.HostLocal && l.Problem == "" {
			left = append(left, fmt.Errorf("DEL reports success, and the lease of %s in network %s is there still", l.Address, l.Pool))
		}
	}
	if a.Device != "" && is != inspect.Replaced { // else forced cleanup, which follows, moves it
		if _, found, err := o.Config.Host.LinkMTU(a.Device); err != nil || !found {
			left = append(left, cmp.Or(err, fmt.Errorf("DEL reports success, and the host has no device %s", a.Device)))
		}
	}
	if path, holds := o.Config.Cache().Holds(a); holds {
		left = append(left, fmt.Errorf("DEL reports success, and the cached result %s is there still", path))
	}
	return errors.Join(left...)
}
