// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package block

import (
	"context"
	"errors"
	"slices"

	"github.com/allocnet/allocnet/cluster/ipam"
)

// place is what the store says of this machine.
type place struct {
	// isNew: this machine has had its instance for so short a time in this boot that another
	// one may not have said yet that it has, too.
	isNew bool
	// isReset: the store did not have the last nonce of this machine, so that others may not have seen it.
	isReset bool
	// registered: this machine has written a nonce.
	registered bool
	// copied: a copy of this machine has been refused. boots are those of this machine.
	copied bool
	boots  []string
	// unopposed: what this machine has written, if it has, has been there for so long that another
	// one with its instance has seen it.
	unopposed bool
}

func (p *place) isOurBoot(self ipam.Host, boot string) bool {
	return boot == self.Boot || slices.Contains(p.boots, boot)
}

// registration makes sure that the store's entry of the host is its own, or that there is none.
type registration struct {
	machine *machine
	store   ipam.Store
	host    ipam.Host
	now     moment
	place   *place
	// records have the fence, which others are told. Nil: the entry keeps its own.
	records *records
	fence   int64
	node    *node
	path    string
	// index is that of the entry. 0: there is none.
	index uint64
	// mayWait: an entry is not needed as long as the instance has not left its first boot.
	mayWait bool
	// mustRenew: the nonce is to be another one.
	mustRenew bool
}

// register finds clones of this host: each machine writes a nonce of its own in each boot, and
// one that finds a nonce that it did not write is not alone. In the boot in which the instance
// was made, a machine that may wait does until it finds another's, or has used the store for an hour: a copy of
// its disk starts in another boot, and writes first.
func (s *session) register(ctx context.Context, r registration) error {
	r.machine, r.store, r.host, r.now, r.place, r.records = s.l.machine, s.store, s.host, s.now, &s.place, s.records
	return r.register(ctx)
}

// challengeCopies writes a new nonce, which a machine with the memory of this one does not know.
func (s *session) challengeCopies(ctx context.Context) error {
	if ipam.IsPrivate(s.store) {
		return nil
	}
	return s.register(ctx, registration{mustRenew: true})
}

func (r *registration) register(ctx context.Context) error {
	unlock, err := r.machine.dir.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	r.path = ipam.NodePath(r.host.Instance)
	if r.node, err = r.machine.read(r.host.Instance); err != nil {
		return err
	}
	if r.fence = r.node.Fence; r.records != nil {
		r.fence = r.records.Fence
	}
	if r.node.MachineID != "" && r.node.MachineID != r.host.MachineID {
		return r.node.closed(r.host)
	}
	for range registerAttempts {
		if err = r.attempt(ctx); !errors.Is(err, ipam.ErrConflict) {
			break
		}
	}
	p := r.place
	p.isNew = err != nil || r.now.within(settle, r.node.Registered)
	p.registered, p.copied, p.boots = len(r.node.Nonces) > 0, !r.node.Copied.isZero(), r.node.Boots
	p.unopposed = err == nil && (!p.isNew || ipam.IsPrivate(r.store))
	return err
}

func (r *registration) attempt(ctx context.Context) error {
	entry, err := r.store.Get(ctx, r.path)
	if errors.Is(err, ipam.ErrNotFound) {
		r.index = 0
		return r.missing(ctx)
	}
	if err != nil {
		return err
	}
	r.index = entry.Index
	content, err := ipam.DecodeNode(entry.Content)
	r.place.isReset = content.Nonce != r.node.last()
	own := err == nil && (content.Nonce == "" || slices.Contains(r.node.Nonces, content.Nonce) || entry.Index < r.node.Index)
	switch {
	case err == nil && r.node.Contested && !content.Contested: // the store was restored
		return r.contest(ctx)
	case own && content.Contested:
		return r.refuse(true)
	case !own:
		return r.object(ctx, content)
	case r.node.Twin:
		return r.insist(ctx)
	case content.Nonce == r.node.last() && r.node.Boot == r.host.Boot && content.Challenger == "" && !r.isDue(content.Fence, r.node.Renewed):
		return r.confirm()
	}
	return r.renew(ctx)
}

// isDue tells whether the entry is to be written though it is this machine's: others are to hear again that it
// lives, which they last did at a moment. One that they do not hear of is silent, and loses what it has when its
// node is gone.
func (r *registration) isDue(fence int64, heard moment) bool {
	after := refreshAfter
	if r.machine.attends.Load() {
		after = renewAfter
	}
	return r.mustRenew || !ipam.IsPrivate(r.store) && (r.now.older(after, heard) || fence != r.fence)
}

// missing makes the entry, unless there has never been one and none is needed.
func (r *registration) missing(ctx context.Context) error {
	self, err := r.machine.self()
	if err != nil {
		return err
	}
	born := self.Born && self.Instance == r.host.Instance
	switch {
	case r.node.Twin || len(r.node.Nonces) > 0 || !born:
		r.place.isReset = true
	case !r.mayWait:
		r.node.Registered = moment{} // another machine has time to say so from now on
	case !r.machine.attends.Load() && (r.node.Registered.isZero() || !r.isDue(r.fence, r.node.Registered)):
		r.enter()
		return r.confirm()
	}
	return r.renew(ctx) // that is how the state of twins ends: an operator has removed the entry when there was one machine left
}

func (r *registration) renew(ctx context.Context) error {
	if err := r.write(ctx, ipam.NodeContent{}); err != nil {
		return err
	}
	return r.confirm()
}

// write writes a new nonce, with what else the entry says, in the place of what was read. The nonce is on disk before, so
// that a late write is known.
func (r *registration) write(ctx context.Context, content ipam.NodeContent) (err error) {
	if err := r.remember(r.machine.random()); err != nil {
		return err
	}
	content.Host, content.Nonce, content.Fence = r.host, r.node.last(), r.fence
	if r.index == 0 {
		r.index, err = r.store.Create(ctx, r.path, ipam.Encode(content))
	} else {
		r.index, err = r.store.Update(ctx, r.path, ipam.Encode(content), r.index)
	}
	if err == nil {
		r.node.Renewed, r.node.Fence = r.now, content.Fence
	}
	return err
}

func (r *registration) enter() {
	if r.node.Boot != r.host.Boot {
		r.node.Registered, r.node.Seen, r.node.Renewed = moment{}, moment{}, moment{}
		r.node.Boots = append(r.node.Boots, r.host.Boot)
		r.node.Boots = r.node.Boots[max(0, len(r.node.Boots)-mostNonces):]
	}
	r.node.MachineID, r.node.Boot = r.host.MachineID, r.host.Boot
}

func (r *registration) remember(nonce string) error {
	r.enter()
	r.node.Nonces = append(r.node.Nonces, nonce)
	r.node.Nonces = r.node.Nonces[max(0, len(r.node.Nonces)-mostNonces):]
	return r.save()
}

func (r *registration) save() error {
	r.node.Version = nodeVersion
	return errors.Join(writeJSON(r.machine.dir, nodeFile, r.node), r.saveOfBoot())
}

// saveOfBoot writes what need not outlast the boot.
func (r *registration) saveOfBoot() error { return writeJSON(r.machine.run, nodeFile, r.node) }

// confirm records that this machine has its place, and since when in this boot.
func (r *registration) confirm() error {
	isKnown := !r.node.Registered.isZero() && !r.node.Twin
	if r.node.Twin, r.node.Contested = false, false; r.node.Registered.isZero() {
		r.node.Registered = r.now
	}
	if r.node.Seen = r.now; r.index > 0 {
		r.node.Index = r.index
	}
	if isKnown {
		return r.saveOfBoot()
	}
	return r.save()
}

// object answers a machine that has written its nonce in the place of this one's. One that only
// comes now is refused. If this one has been there for long enough, and so lately that the blocks of
// the other one are still closed, it insists. Two in one boot, which have the same blocks open, are both
// refused.
func (r *registration) object(ctx context.Context, other ipam.NodeContent) error {
	inPlace := r.node.Boot == r.host.Boot && !r.node.Registered.isZero()
	switch {
	case other.Contested:
		return r.refuse(true)
	case !inPlace:
		return r.refuse(r.node.Contested)
	case other.Host.Boot == r.host.Boot:
		return r.contest(ctx)
	case other.Insists:
		return r.refuse(r.node.Contested)
	case r.now.within(settle, r.node.Registered) || !r.isInTime():
		return r.contest(ctx)
	}
	r.node.Twin = true // until it is known to have been in time
	if err := r.write(ctx, ipam.NodeContent{Insists: true}); err != nil {
		return err
	}
	return r.insist(ctx)
}

// isInTime tells whether the store had this machine's nonce so lately that another machine, which
// has written its own since, has not waited for long enough.
func (r *registration) isInTime() bool {
	now := r.machine.moment(r.host.Boot)
	return r.node.Seen.Boot == now.Boot && now.within(settle, r.node.Seen)
}

// insist ends what object began, once the store has the nonce of this machine again.
func (r *registration) insist(ctx context.Context) error {
	switch {
	case r.node.Registered.isZero():
		return r.refuse(r.node.Contested)
	case !r.isInTime():
		return r.contest(ctx)
	}
	r.machine.logger.Warn("another machine has taken this one's place in the store, and is refused: it is a copy of this one", "instance", r.host.Instance)
	r.node.Copied = r.now
	return r.confirm()
}

// contest tells the other machine that there are two, so that neither gives out addresses.
func (r *registration) contest(ctx context.Context) error {
	r.node.Contested = true
	if err := r.write(ctx, ipam.NodeContent{Contested: true}); err != nil {
		r.node.Contested = !errors.Is(err, ipam.ErrConflict) // the other machine may have said why it stays
		return err
	}
	return r.refuse(true)
}

// refuse ends that this machine has its place. Of two that are contested, neither has.
func (r *registration) refuse(contested bool) error {
	was := r.node.Twin && r.node.Registered.isZero() && r.node.Contested == contested
	r.node.Twin, r.node.Contested, r.node.Registered = true, contested, moment{}
	err := r.node.closed(r.host)
	if was {
		return err
	}
	return errors.Join(r.save(), err)
}
