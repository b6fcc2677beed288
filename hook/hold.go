// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"time"

	"github.com/allocnet/allocnet/state"
)

// holdForPlugins opens the directory that plugins inherit; see state.Locked.Hold.
// Attachments from libcni's cache have no directory yet.
func (o *operation) holdForPlugins() error {
	if o.hold != nil || len(o.record.Attachments) == 0 {
		return nil
	}
	var err error
	if o.hold, err = o.lock.Hold(); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := o.lock.Begin(o.record.Allocation, nil); err != nil {
		return err
	}
	o.hold, err = o.lock.Hold()
	return err
}

// waitForOrphans waits for plugins that outlive a killed process of allocnet. They get
// their share of the call's time, and at most the time of a plugin call.
func (o *operation) waitForOrphans(ctx context.Context) error {
	interrupted := slices.ContainsFunc(o.record.Attachments, func(a state.Attachment) bool {
		return a.Phase == state.Adding || a.Phase == state.Deleting || a.FormerResult != nil
	})
	boot, err := state.BootID()
	if err != nil {
		return err
	}
	if !interrupted || o.hold != nil || o.record.Allocation.BootID != boot {
		return nil
	}
	part, release := phase(ctx, orphanShare, "waiting for plugins")
	defer release()
	limited, stop := context.WithTimeout(part, o.config.CallTimeout)
	defer stop()
	started := time.Now()
	o.log.Debug("waiting for plugins that a killed process started")
	if err := o.lock.WaitForPlugins(limited); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		o.log.Warn("a plugin that a killed process started still runs; continuing without it", "waited", round(time.Since(started)))
	}
	return nil
}
