// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package isolate

import (
	"context"
	"errors"
	"fmt"

	"github.com/allocnet/allocnet/hook/internal/operation"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/state"
)

// Hold keeps the host from getting all anew until an attachment that the host does not know any more is not on record either. Where
// nothing is isolated it does nothing.
func Hold(ctx context.Context, o *operation.Operation) (release func(), err error) {
	if inForce, err := (host{o.Config, o.Store}).inForce(); err != nil || inForce == nil {
		return func() {}, err
	}
	return o.Store.Isolation().RLock(ctx)
}

// Forget has neither the host nor a namespace know an attachment any more, of which no interface is left. Its caller has Hold until it is not on record
// either. What is another attachment's by now stays.
func Forget(ctx context.Context, o *operation.Operation, a state.Attachment) error {
	return errors.Join(Remove(ctx, o, a), Leave(ctx, o, a))
}

// Remove removes what the host, and namespaces of other allocations, have for an attachment: its addresses may be given out again after that, and to no
// one before. What has an end on the host has no links any more.
func Remove(ctx context.Context, o *operation.Operation, a state.Attachment) error {
	w, err := host{o.Config, o.Store}.inForce()
	if err != nil || w == nil {
		return err
	}
	m, ok := member(o.Record.Allocation, a, w.Levels)
	if !ok {
		return nil
	}
	if err := (host{o.Config, o.Store}).forgetInside(ctx, *w, m); err != nil || m.Inside {
		return err
	}
	if err := o.Config.Filter.Remove(ctx, w.Rules, m); err != nil {
		return fmt.Errorf("isolation of interface %s: %w", a.Interface, err)
	}
	return nil
}

// Leave removes what the namespace of an attachment, which has no interface any more, has of it.
func Leave(ctx context.Context, o *operation.Operation, a state.Attachment) error {
	w, err := host{o.Config, o.Store}.inForce()
	if err != nil || w == nil || hasEnd(a) || !w.Levels.of(a.Network, recordedLevel(a)).Inside && a.Isolation == nil {
		return err
	}
	ns, err := o.Namespace()
	if errors.Is(err, netns.ErrMissing) {
		return nil
	}
	if err == nil {
		m, _ := recordedOf(o.Record.Allocation, a)
		err = o.Config.Filter.RemoveInside(ctx, ns, m.Member)
	}
	if err != nil {
		return fmt.Errorf("isolation of interface %s: %w", a.Interface, err)
	}
	return nil
}

// End removes all that the host has if nothing is on record any more.
func End(ctx context.Context, o *operation.Operation) error {
	h := host{o.Config, o.Store}
	if inForce, err := h.inForce(); err != nil || inForce == nil {
		return err
	}
	if ids, err := o.Store.IDs(); err != nil || len(ids) > 0 {
		return err
	}
	return h.apply(ctx)
}
