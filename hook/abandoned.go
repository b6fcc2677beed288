// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/allocnet/allocnet/internal/netns"
)

// tearDownAbandoned tears down the abandoned allocations, also those that have a namespace
// and no record, and removes their namespaces.
func (e *Engine) tearDownAbandoned(ctx context.Context, r GCRequest, c *Collected) error {
	if r.Abandoned == nil {
		return nil
	}
	ids, err := r.Abandoned()
	errs := []error{err}
	for _, id := range ids {
		torn, next, err := e.removeAbandoned(ctx, id)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("allocation %s, which has ended: %w", id, err))
		case torn:
			c.TornDown = append(c.TornDown, id)
		case !next.IsZero():
			c.Postponed[id] = postponed(next)
		}
	}
	return errors.Join(errs...)
}

// removeAbandoned detaches an allocation in its namespace, and then removes the namespace. One
// that is locked is left to the next GC, and so is a teardown that failed; next is when
// it is due again.
func (e *Engine) removeAbandoned(ctx context.Context, id string) (torn bool, next time.Time, err error) {
	o, err := e.beginUnlocked(ctx, id)
	if o == nil || err != nil {
		return false, next, err
	}
	defer o.end()
	if now := time.Now(); !due(o.record, now) {
		return false, nextAttempt(o.record, now), nil
	}
	o.reason = ReasonGC
	if err := o.teardown(ctx); err != nil {
		return false, next, err
	}
	path := filepath.Join(netns.DefaultDir, id)
	o.log.Info("removing the namespace of an allocation that has ended", "allocation", id, "netns", path)
	if err := e.config.Namespaces.Remove(path); err != nil {
		return false, next, err
	}
	return true, next, nil
}
