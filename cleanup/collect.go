// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/wake"
	"github.com/allocnet/allocnet/state"
)

// Collector finds and removes the objects that dead allocations left on the host.
type Collector struct {
	// Store has the records.
	Store *state.Store
	// ConfDirs are CNI configuration directories. Objects of their networks and of
	// recorded ones can be removed. Default: none.
	ConfDirs []string
	// CacheDir is libcni's. Default: /var/lib/cni.
	CacheDir string
	// Grace is the least age of the leases of an allocation that is not on record:
	// when another program attaches to the same networks, a lease is the first
	// object, before any liveness evidence. Default: none.
	Grace time.Duration
	// Orchestrated tells whether an orchestrator whose live set is queried attached
	// the owner to a network of its own. Such objects are examined like those of
	// ConfDirs. Default: none.
	Orchestrated func(Owner) bool
	// RefreshLive returns the live set anew before each batch is removed. An error
	// ends the collection. Default: only records and namespaces are read anew.
	RefreshLive func(ctx context.Context) (Live, error)
	// Progress is called after each batch with the number of allocations that are
	// done, and of all. Default: not called.
	Progress func(done, of int)
	// Observe is called for each allocation whose leaks were removed, or failed to be.
	// Default: not called.
	Observe func(Removed)
	// Logger gets a line for each batch. Default: none.
	Logger hclog.Logger

	// host is what is examined. Default: this one.
	host *host
}

// Examine scans the host and plans, and changes nothing. Sources that
// cannot be listed are problems. An error means that there is no plan.
func (c *Collector) Examine(ctx context.Context, scope Scope, live Live) (*Report, error) {
	report, _, err := c.examine(ctx, scope, live)
	return report, err
}

func (c *Collector) examine(ctx context.Context, scope Scope, live Live) (*Report, *scanResult, error) {
	s, recorded, err := c.scanner(ctx)
	if err != nil {
		return nil, nil, err
	}
	found, scanErr := s.scan(ctx)
	found.places, found.unseen = c.host.orDefault().kernel.namespaces()
	report := &Report{Problems: found.Problems, Unknown: errors.Join(scanErr, found.unseen)}
	if report.Unknown != nil {
		report.Problems = append(report.Problems, Problem{"host", report.Unknown.Error()})
	}
	records, err := c.records(ctx, recorded)
	if err != nil {
		return nil, nil, err
	}
	if scope.Forget {
		records.forget(scope.Allocation)
	}
	decisions, doubt, err := plan(found, records, live, scope.Allocation)
	if err != nil {
		return nil, nil, err
	}
	report.Alive = doubt
	for _, v := range decisions {
		if scope.has(v.Object) {
			report.Decisions = append(report.Decisions, v)
		}
	}
	c.logFuture(report.Leaked(), records)
	return report, found, nil
}

// Collect removes leaked objects of allocations that are not on record: Engine.GC
// tears down those that are. Objects of an allocation that is set up meanwhile
// are kept. The error joins the sources that could not be listed and the objects that
// are left.
func (c *Collector) Collect(ctx context.Context, scope Scope, live Live) (*Report, error) {
	report, found, err := c.examine(ctx, scope, live)
	if err != nil {
		return nil, err
	}
	byAllocation := map[string][]Object{}
	var ids []string
	for _, v := range report.Leaked() {
		id := v.Owner.Allocation
		if byAllocation[id] == nil {
			ids = append(ids, id)
		}
		byAllocation[id] = append(byAllocation[id], v.Object)
	}
	size := batchSize{}
	for done := 0; done < len(ids); {
		if ctx.Err() != nil {
			return report, context.Cause(ctx)
		}
		part := ids[done:min(done+size.next(), len(ids))]
		took, err := c.removeBatch(ctx, part, byAllocation, found, report)
		if err != nil {
			return report, fmt.Errorf("%d of %d dead allocations are cleaned up: %w", done, len(ids), err)
		}
		size.adapt(took)
		done += len(part)
		c.report(done, len(ids), report)
	}
	errs := []error{c.Store.RemoveStale()}
	if report.Unknown != nil {
		errs = append(errs, fmt.Errorf("leaks may be left: %w", report.Unknown))
	}
	for _, failure := range report.Failures {
		errs = append(errs, failure)
	}
	return report, errors.Join(errs...)
}

func (c *Collector) report(done, of int, report *Report) {
	if c.Progress != nil {
		c.Progress(done, of)
	}
	if c.Logger != nil {
		c.Logger.Info("removed leaked objects of dead allocations", "allocations", done, "of", of, "objects", report.Removed)
	}
}

// removeBatch removes the objects of allocations that are still dead. One that has lost a
// file since the scan was set up and torn down meanwhile, also between the two readings of the
// records: what it has left the next collection finds. It holds the lock of the host, so that
// nothing is attached meanwhile, and returns for how long.
func (c *Collector) removeBatch(ctx context.Context, ids []string, byAllocation map[string][]Object, found *scanResult, report *Report) (time.Duration, error) {
	live := Live(NoneLive)
	if c.RefreshLive != nil {
		var err error
		if live, err = c.RefreshLive(ctx); err != nil {
			return 0, err
		}
	}
	unlock, err := c.lock(ctx)
	if err != nil {
		return 0, err
	}
	defer unlock()
	started := time.Now()
	recorded, err := c.Store.IDs()
	if err != nil {
		return 0, err
	}
	var objects []Object
	for _, id := range ids {
		_, known := slices.BinarySearch(recorded, id)
		if known || live(id) != "" || c.host.orDefault().kernel.exists(filepath.Join(netns.DefaultDir, id)) || slices.ContainsFunc(byAllocation[id], Object.isGone) {
			report.spared = append(report.spared, id)
			continue
		}
		objects = append(objects, byAllocation[id]...)
	}
	failures := found.remove(ctx, objects)
	report.Removed += len(objects) - len(failures)
	report.Failures = append(report.Failures, failures...)
	took := time.Since(started)
	if c.Observe != nil {
		for _, r := range removedOf(objects, failures) {
			r.Took = took
			c.Observe(*r)
		}
	}
	return took, nil
}

// lock waits until no attachment is in flight. Between its attempts, set-ups that
// wait for it proceed.
func (c *Collector) lock(ctx context.Context) (unlock func(), err error) {
	for range lockAttempts {
		unlock, err = c.Store.LockHost(ctx)
		if !errors.Is(err, state.ErrAttaching) {
			break
		}
		if !wake.After(ctx, time.Second) {
			return nil, context.Cause(ctx)
		}
	}
	return unlock, err
}

// lockAttempts is the number of attempts before the rest is left to the next
// collection.
const lockAttempts = 5

// batchSize is how many allocations are cleaned up at once. Nothing is attached
// meanwhile, so a batch is to take a fraction of a second. The size for that
// depends on the number of rules on the host.
type batchSize struct{ n int }

// Limits of a batch: iptables-nft-restore takes more than twice as long for twice
// as many chains from some thousands on.
const (
	minBatch     = 10
	initialBatch = 100
	maxBatch     = 1000
)

func (b *batchSize) next() int {
	if b.n == 0 {
		b.n = initialBatch
	}
	return b.n
}

// adapt sets the size by how long the last batch took.
func (b *batchSize) adapt(d time.Duration) {
	switch {
	case d < 250*time.Millisecond:
		b.n = min(2*b.n, maxBatch)
	case d > 750*time.Millisecond:
		b.n = max(b.n/2, minBatch)
	}
}
