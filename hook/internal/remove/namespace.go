// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package remove

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/allocnet/allocnet/hook/internal/operation"
	"github.com/allocnet/allocnet/state"
)

// leaveNamespace removes a namespace that Setup made. In that of another runtime it
// restores the default routes. Whose it is may be all that is lost: then it is not done as long as there is one.
func leaveNamespace(o *operation.Operation) error {
	if o.Record.Allocation.Mode == state.ModeUnknown {
		if path := filepath.Join(o.Config.NetnsDir, o.Record.Allocation.ID); o.Config.Namespaces.Exists(path) {
			return fmt.Errorf("the damaged record does not say whose %s is: remove it if it is the allocation's, and repeat", path)
		}
	}
	if o.Record.Allocation.NetnsOwned {
		return removeNamespace(o)
	}
	if !replacesRoutes(o.Record) { // so that the record says nothing more
		return nil
	}
	return restoreAfterRemoval(o)
}

// replacesRoutes tells whether attachments have replaced default routes, those that were removed included.
func replacesRoutes(r state.Record) bool {
	return len(r.Allocation.PreviousRoutes) > 0 || slices.ContainsFunc(r.Attachments, func(a state.Attachment) bool { return len(a.PreviousRoutes) > 0 })
}

// restoreAfterRemoval restores the default routes after DEL, also when it failed for some
// attachments: the others are removed.
func restoreAfterRemoval(o *operation.Operation) error {
	record, err := o.Lock.Load()
	if err != nil && !errors.Is(err, state.ErrNotFound) {
		return err
	}
	record.Allocation.ID = o.Record.Allocation.ID
	o.Record = record
	o.Work().Removed()
	return nil
}

// removeNamespace removes the namespace that Setup made, or the file at which it was
// pinned. Another namespace at that path is not removed.
func removeNamespace(o *operation.Operation) error {
	if err := o.Work().End(); err != nil {
		return err
	}
	o.CloseNamespace() // so that it ends, and what is at the path now counts
	path, err := o.NamespacePath()
	if err != nil {
		return err
	}
	if path == "" && o.Config.Namespaces.Exists(o.Record.Allocation.Netns) {
		return nil
	}
	o.CloseNamespace()
	return o.Config.Namespaces.Remove(o.Record.Allocation.Netns)
}

// WaitForOrphans waits for plugins that outlive a killed process of allocnet. They get
// their share of the call's time, and at most the time of a plugin call.
func WaitForOrphans(ctx context.Context, o *operation.Operation) error {
	interrupted := slices.ContainsFunc(o.Record.Attachments, func(a state.Attachment) bool {
		return a.Phase == state.Adding || a.Phase == state.Deleting || a.FormerResult != nil
	})
	boot, err := state.BootID()
	if err != nil {
		return err
	}
	if !interrupted || o.Hold != nil || o.Record.Allocation.BootID != boot {
		return nil
	}
	part, release := operation.Phase(ctx, operation.OrphanShare, "waiting for plugins")
	defer release()
	limited, stop := context.WithTimeout(part, o.Config.CallTimeout)
	defer stop()
	started := time.Now()
	o.Log.Debug("waiting for plugins that a killed process started")
	if err := o.Lock.WaitForPlugins(limited); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		o.Log.Warn("a plugin that a killed process started still runs; continuing without it", "waited", operation.Round(time.Since(started)))
	}
	return nil
}
