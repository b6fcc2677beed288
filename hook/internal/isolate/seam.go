// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package isolate

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"

	"github.com/allocnet/allocnet/hook/internal/operation"
	"github.com/allocnet/allocnet/internal/inprocess/plugin"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/state"
)

// endNames is how many names are chosen until there is no link of it.
const endNames = 10

// Choose gives the end on the host of an attachment a name, of the form that plugins give, before ADD begins: it is on record with that.
func Choose(o *operation.Operation, a *state.Attachment) error {
	if a.Isolation == nil || a.Isolation.Inside || a.Executor != state.InProcess {
		return nil
	}
	for range endNames {
		name := fmt.Sprintf("veth%08x", rand.Uint32())
		_, taken, err := o.Host.LinkMTU(name)
		if err != nil {
			return err
		}
		if !taken {
			a.Isolation = a.Isolation.Unplaced()
			a.Isolation.End = name
			return nil
		}
	}
	return errors.New("no free name for the end on the host of a veth pair")
}

// Seam returns what keeps an attachment apart in ADD; nil if it is not on record for that.
func Seam(ctx context.Context, o *operation.Operation, a *state.Attachment) *plugin.Isolation {
	if a.Isolation == nil || a.Isolation.End == "" {
		return nil
	}
	s := seam{ctx, o, a}
	return &plugin.Isolation{End: a.Isolation.End, Guard: s.guard, Admit: s.admit}
}

// seam is the moments of an ADD. Each has the lock, so that what is recorded is among what the host gets anew meanwhile.
type seam struct {
	ctx        context.Context //nolint:containedctx // that of one ADD
	operation  *operation.Operation
	attachment *state.Attachment
}

// guard has nothing pass from the end, unless forged frames may.
func (s seam) guard(bridge string) error {
	if !s.attachment.Isolation.Antispoof {
		return nil
	}
	guard := func(wanted) error {
		return s.operation.Config.Filter.Guard(s.ctx, s.attachment.ContainerID, s.attachment.Isolation.End, bridge)
	}
	return s.change(guard, guard)
}

// admit records where the attachment is, and has pass what rules allow.
func (s seam) admit(bridge, mac string, addresses []netip.Addr) error {
	at := *s.attachment.Isolation
	at.Bridge, at.MAC, at.Addresses = bridge, mac, addresses
	s.attachment.Isolation = &at
	if err := s.operation.Lock.Write(*s.attachment); err != nil {
		return err
	}
	if err := s.change(s.add, s.complete); err != nil {
		return err
	}
	return s.host().tellInside(s.ctx, s.operation.Record.Allocation.ID)
}

// Readmit has the host know the MAC of an attachment that a later plugin of its chain has given it, as tuning does, and no other one. What is kept apart inside
// it has pass by then what rules allow.
func Readmit(ctx context.Context, o *operation.Operation, a *state.Attachment) error {
	if a.Isolation == nil {
		return nil
	}
	if a.Isolation.Inside {
		return admitInside(ctx, o, a)
	}
	if a.Isolation.MAC == "" {
		return nil
	}
	mac, _ := inside(*a)
	if mac == "" || netns.SameMAC(mac, a.Isolation.MAC) {
		return nil
	}
	at := *a.Isolation
	at.MAC = mac
	a.Isolation = &at
	if err := o.Lock.Write(*a); err != nil {
		return err
	}
	return host{o.Config, o.Store}.apply(ctx)
}

// add has the host know the attachment, if it can, and complete has it get what it lacks for that.
func (s seam) add(w wanted) error {
	m, ok := member(s.operation.Record.Allocation, *s.attachment, w.Levels)
	if !ok || m.Inside {
		return nil
	}
	return s.operation.Config.Filter.Add(s.ctx, w.Rules, m)
}

func (s seam) complete(w wanted) error {
	m, ok := member(s.operation.Record.Allocation, *s.attachment, w.Levels)
	if !ok || m.Inside {
		return nil
	}
	return s.operation.Config.Filter.Complete(s.ctx, w.Rules, m, s.host().source(s.ctx, w))
}

func (s seam) host() host { return host{s.operation.Config, s.operation.Store} }

// change makes a change for one attachment where the host has what is wanted, at the same time as others do. Otherwise, as for the first one, the host
// gets what is on record while none of them does: by complete, if the change is all that it lacks.
func (s seam) change(do, complete func(wanted) error) error {
	unlock, err := s.operation.Store.Isolation().RLock(s.ctx)
	if err != nil {
		return err
	}
	isMade, err := s.changeInForce(do)
	unlock()
	if err == nil && isMade {
		return nil
	}
	s.operation.AttachmentLog(*s.attachment).Debug("isolation is made anew", "error", err)
	if unlock, err = s.operation.Store.Isolation().Lock(s.ctx); err != nil {
		return err
	}
	defer unlock()
	if isMade, err := s.changeInForce(complete); err == nil && isMade {
		return nil
	}
	failed, err := s.host().applyLocked(s.ctx)
	return errors.Join(err, failed.of(s.operation.Record.Allocation.ID))
}

// changeInForce makes a change if the host has what is wanted. The caller holds a lock.
func (s seam) changeInForce(do func(wanted) error) (isMade bool, err error) {
	w, inForce, err := s.host().load()
	if err != nil || inForce == nil || !w.isSame(*inForce) {
		return false, err
	}
	return true, do(w)
}

// Join has the host know attachments that were recorded without it, as those that plugins have made, if others are kept apart by now.
func Join(ctx context.Context, o *operation.Operation, attachments []state.Attachment) error {
	if !slices.ContainsFunc(attachments, func(a state.Attachment) bool { return a.Isolation == nil }) {
		return nil
	}
	joins, err := Joins(o.Config, o.Store)(false)
	if err != nil || !joins {
		return err
	}
	for i := range attachments {
		if s := (seam{ctx, o, &attachments[i]}); s.attachment.Isolation == nil {
			if err := s.change(s.add, s.complete); err != nil {
				return err
			}
		}
	}
	return host{o.Config, o.Store}.tellInside(ctx, o.Record.Allocation.ID)
}
