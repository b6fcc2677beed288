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
}

// Open returns the blocks of which new addresses may be given out, in order.
func (o *Overview) Open() []ipam.Block {
	var open []ipam.Block
	for _, r := range o.Blocks {
		if r.State == Held && o.Closed == nil {
			open = append(open, r.Block)
		}
	}
	return open
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
	o := &Overview{Blocks: slices.Clip(r.Blocks), Verified: r.Verified.Time}
	if o.Closed = node.closed(self.Host); o.Closed == nil {
		o.Closed = l.mismatch(r)
	}
	if o.Closed == nil {
		o.Closed = l.fenced(r, l.moment(self.Boot))
	}
	return o, nil
}

// fenced returns the error of records that were verified too long ago.
func (l *Leases) fenced(r *records, now moment) error {
	fence := cmp.Or(time.Duration(r.Fence), defaultFence)
	if !now.older(fence, r.Verified) {
		return nil
	}
	last := "never"
	if !r.Verified.isZero() {
		last = "at " + r.Verified.Time.Format(time.RFC3339)
	}
	return fmt.Errorf("%w: last verified %s, want every %s", ipam.ErrFenced, last, fence)
}
