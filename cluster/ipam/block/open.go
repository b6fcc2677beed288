// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package block

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/allocnet/allocnet/cluster/ipam"
)

// Overview is what a host knows of its blocks.
type Overview struct {
	Blocks []Record
	// Verified is when they were last compared with the store. Zero: never.
	Verified time.Time
	// Closed is why no block gives out new addresses: ipam.ErrTwin, ipam.ErrMismatch or
	// ipam.ErrFenced. Nil: those that are Held do.
	Closed error
	// Waiting is what blocks that this host had before its boot wait for. Empty: they are open.
	Waiting string
	// Copied: a copy of this machine was refused within the last hour.
	Copied bool
	open   []ipam.Block
}

// Open returns the blocks of which new addresses may be given out, in order.
func (o *Overview) Open() []ipam.Block {
	if o.Closed != nil {
		return nil
	}
	return o.open
}

// Overview reads the records of the host. It needs no store. A caller that gives out addresses
// holds the lease lock until it has.
func (l *Leases) Overview() (*Overview, error) {
	self, err := l.machine.self()
	if err != nil {
		return nil, err
	}
	r, err := l.ledger.read(self.Instance)
	if err != nil {
		return nil, err
	}
	node, err := l.machine.read(self.Instance)
	if err != nil {
		return nil, err
	}
	now := l.machine.moment(self.Boot)
	o := &Overview{Blocks: slices.Clip(r.Blocks), Verified: r.Verified.Time, Waiting: r.waiting(node, now)}
	o.Copied = node.Copied.Boot == now.Boot && now.within(copiedFor, node.Copied)
	for _, b := range r.Blocks {
		if b.isOpen(self.Boot) {
			o.open = append(o.open, b.Block)
		}
	}
	if o.Closed = node.closed(self.Host); o.Closed == nil {
		o.Closed = r.mismatch(l.Config)
	}
	if o.Closed == nil {
		o.Closed = r.fenced(node, now)
	}
	return o, nil
}

// fenced returns the error of records that were verified too long ago, or not in this boot: only
// the uptime tells how long ago that was. A longer fence than others know is in force when the
// host's entry has it.
func (r *records) fenced(n *node, now moment) error {
	fence, expired := r.expired(n, now)
	switch {
	case r.Verified.Boot != now.Boot:
		return fmt.Errorf("%w: not since it booted, or its state directory was restored: the store has to answer first", ipam.ErrFenced)
	case expired:
		return fmt.Errorf("%w: last at %s, want every %s", ipam.ErrFenced, r.Verified.Time.Format(time.RFC3339), fence)
	}
	return nil
}

// expired returns the fence, and whether records that were verified in this boot are too old.
func (r *records) expired(n *node, now moment) (fence time.Duration, expired bool) {
	fence = min(cmp.Or(time.Duration(r.Fence), defaultFence), cmp.Or(time.Duration(n.Fence), defaultFence))
	return fence, r.Verified.Boot == now.Boot && now.older(fence, r.Verified)
}

// close lets no block give out addresses before its entry is written again.
func (r *records) close() {
	for i := range r.Blocks {
		r.Blocks[i].Boot = ""
	}
}

// isOpen tells whether addresses of a block may be given out. The copy of a machine's disk has what
// the machine had before the copy's boot, and is another machine if it had time to say so.
func (r Record) isOpen(boot string) bool { return r.State == Held && r.Boot == boot }

// waits tells whether a block waits until this machine is known to be the only one.
func (r *records) waits(boot string) bool {
	return slices.ContainsFunc(r.Blocks, func(b Record) bool { return b.State == Held && !b.isOpen(boot) })
}

// waiting returns what blocks wait for, and for how long. Empty: none waits.
func (r *records) waiting(n *node, now moment) string {
	if !r.waits(now.Boot) {
		return ""
	}
	left := settle
	if n.Boot == now.Boot && !n.Registered.isZero() {
		age, _ := now.since(n.Registered)
		left = max(0, settle-age)
	}
	return fmt.Sprintf("what this host had before its boot waits until the store has answered for %s, in which a machine of which it is a copy can object: for %s more", settle, left.Round(time.Second))
}
