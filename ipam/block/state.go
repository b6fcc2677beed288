// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package block

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/allocnet/allocnet/ipam"
)

// Overview is what a host knows of its blocks.
type Overview struct {
	Blocks []Record
	// Verified is when they were last compared with the store. Zero: never.
	Verified time.Time
	// Closed is why no block gives out new addresses: ipam.ErrTwin, ipam.ErrMismatch or
	// ipam.ErrFenced. Nil: those that are Held do.
	Closed error
	// Waiting: blocks that this host had before its boot wait until no other machine has opposed
	// it for 40 s. Others are open.
	Waiting bool
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
	self, err := l.self()
	if err != nil {
		return nil, err
	}
	r, err := l.readRecords(self.Instance)
	if err != nil {
		return nil, err
	}
	node, err := l.readNode(self.Instance)
	if err != nil {
		return nil, err
	}
	o := &Overview{Blocks: slices.Clip(r.Blocks), Verified: r.Verified.Time, Waiting: r.waits(self.Boot)}
	now := l.moment(self.Boot)
	o.Copied = node.Copied.Boot == now.Boot && now.within(copiedFor, node.Copied)
	for _, b := range r.Blocks {
		if r.isOpen(b, self.Boot) {
			o.open = append(o.open, b.Block)
		}
	}
	if o.Closed = node.closed(self.Host); o.Closed == nil {
		o.Closed = l.mismatch(r)
	}
	if o.Closed == nil {
		o.Closed = l.fenced(r, node, now)
	}
	return o, nil
}

// fenced returns the error of records that were verified too long ago, or not in this boot: only
// the uptime tells how long ago that was. A longer fence than others know is in force when the
// host's entry has it.
func (l *Leases) fenced(r *records, n *node, now moment) error {
	fence := min(cmp.Or(time.Duration(r.Fence), defaultFence), cmp.Or(time.Duration(n.Fence), defaultFence))
	if r.Verified.Boot == now.Boot && !now.older(fence, r.Verified) {
		return nil
	}
	last := "never"
	if !r.Verified.isZero() {
		last = "at " + r.Verified.Time.Format(time.RFC3339)
	}
	return fmt.Errorf("%w: last verified %s, want every %s", ipam.ErrFenced, last, fence)
}
