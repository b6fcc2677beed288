// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"errors"
	"time"

	"github.com/allocnet/allocnet/state"
)

// Cleaner removes from the host what a DEL left behind. Setup and Teardown
// call it when a DEL failed and whenever the namespace is missing, because
// plugins then report success and leave their rules.
type Cleaner interface {
	// Clean removes what plugins left of the allocations, with one scan of the host
	// for all. It returns one error for each allocation, nil when nothing is left;
	// calling again is safe.
	Clean(ctx context.Context, leftovers []state.Leftover) []error
	// Covers tells whether Clean removes all that the plugins of an attachment
	// leave outside of its namespace: then DEL is not needed after a reboot.
	Covers(a state.Attachment) bool
	// Left is what a plugin of an attachment has left whose DEL reports success; nil: nothing.
	Left(ctx context.Context, a state.Attachment, plugin string) error
}

// NoCleaner turns forced cleanup off.
var NoCleaner Cleaner = noCleaner{}

type noCleaner struct{}

// Clean removes nothing: an attachment is gone if its DEL succeeded.
func (noCleaner) Clean(_ context.Context, leftovers []state.Leftover) []error {
	errs := make([]error, len(leftovers))
	for i, l := range leftovers {
		for _, s := range l.Suspects {
			errs[i] = errors.Join(errs[i], s.DelErr)
		}
	}
	return errs
}

// Covers is false: every DEL is needed.
func (noCleaner) Covers(state.Attachment) bool { return false }

// Left is nil: a DEL that reports success has succeeded.
func (noCleaner) Left(context.Context, state.Attachment, string) error { return nil }

// force has the cleaner remove what allocations left, and reports it.
func (c Config) force(ctx context.Context, reason Reason, leftovers []state.Leftover) []error {
	started := time.Now()
	errs := c.Cleaner.Clean(ctx, leftovers)
	for i, l := range leftovers {
		for _, s := range l.Suspects {
			c.report(observation(OpCleanup, reason, l.Allocation, s.Attachment, 1, started, errs[i]))
		}
	}
	return errs
}
