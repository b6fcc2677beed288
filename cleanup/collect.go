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

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/state"
)

// Source tells which allocations live.
type Source interface {
	// Live returns the IDs of all of them. An error means that it is unknown.
	Live(ctx context.Context) ([]string, error)
	// Name is what the source is called in a reason.
	Name() string
}

// QueryLive asks all sources. An error of one is the result: the others do not know
// what it knows.
func QueryLive(ctx context.Context, sources ...Source) (Live, error) {
	live := map[string]string{}
	for _, source := range sources {
		ids, err := source.Live(ctx)
		if err != nil {
			return nil, fmt.Errorf("ask %s which allocations live: %w: nothing is removed", source.Name(), err)
		}
		for _, id := range ids {
			live[id] = source.Name()
		}
	}
	return func(id string) string { return live[id] }, nil
}

// Collector finds and removes what dead allocations left on the host.
type Collector struct {
	// Store has the records.
	Store *state.Store
	// ConfDirs have the networks that are ours, besides the recorded ones.
	// Default: none.
	ConfDirs []string
	// CacheDir is libcni's. Default: /var/lib/cni.
	CacheDir string
	// Grace is how old the leases of an allocation that is not on record have
	// to be: others who attach to our networks show no other sign of life at
	// first. Default: none.
	Grace time.Duration
	// Orchestrated tells what an orchestrator attached itself, to networks that
	// are not ours, and whose list of the living is asked: it is examined like
	// ours. Default: nothing.
	Orchestrated func(Owner) bool
	// RefreshLive is asked again, before each batch is removed, which allocations live. An
	// error ends the collection. Default: what lived at its beginning still does.
	RefreshLive func(ctx context.Context) (Live, error)
	// Progress is told, after each batch, how many allocations of how many are
	// done. Default: nobody is told.
	Progress func(done, of int)
	// Logger gets a line for each batch. Default: none.
	Logger hclog.Logger

	// host is what is examined. Default: this one.
	host *host
}

// Scope restricts what is examined. The zero value is everything.
type Scope struct {
	// Allocation is the only one to look at. The caller vouches for its
	// death: its network may be anybody's. Signs of life still count.
	Allocation string
	// Network is the only one to look at.
	Network string
}

func (s Scope) has(o Object) bool {
	return (s.Allocation == "" || o.Owner.Allocation == s.Allocation) &&
		(s.Network == "" || o.Owner.Network == s.Network)
}

// Report is what a collection found.
type Report struct {
	// Decisions are on all objects in the scope.
	Decisions []Decision `json:"objects"`
	// Problems are places that could not be examined.
	Problems []Problem `json:"problems,omitempty"`
	// Removed counts the objects that were removed.
	Removed int `json:"removed"`
	// Alive says why the allocation of the scope is not dead; empty when it is, or
	// when the scope names none.
	Alive string `json:"alive,omitempty"`
	// Failures are leaked objects that are still there.
	Failures []Failure `json:"-"`
}

// Leaked returns the decisions on what is leaked.
func (r *Report) Leaked() []Decision {
	return slices.DeleteFunc(slices.Clone(r.Decisions), func(v Decision) bool { return !v.Leaked })
}

// Gone returns the decisions on what was leaked and is removed.
func (r *Report) Gone() []Decision {
	left := map[string]bool{}
	for _, f := range r.Failures {
		left[f.Where] = true
	}
	return slices.DeleteFunc(r.Leaked(), func(v Decision) bool { return left[v.Where] })
}

// Examine scans the host and plans, and changes nothing. Whatever cannot be
// examined is among the problems; the error is that nothing could be planned.
func (c *Collector) Examine(ctx context.Context, scope Scope, live Live) (*Report, *Found, error) {
	s, err := c.scanner(ctx)
	if err != nil {
		return nil, nil, err
	}
	found, scanErr := s.scan(ctx)
	report := &Report{Problems: found.Problems}
	if scanErr != nil {
		report.Problems = append(report.Problems, Problem{"host", scanErr.Error()})
	}
	if err := found.scanNamespaces(nil); err != nil {
		return nil, nil, fmt.Errorf("look into the network namespaces: %w", err)
	}
	records, err := c.records(ctx)
	if err != nil {
		return nil, nil, err
	}
	if scope.Allocation != "" {
		report.Alive = aliveBy(scope.Allocation, found, records)
		for _, o := range found.Objects {
			records.networks[o.Owner.Network] = true
		}
	}
	decisions, err := plan(found, records, live)
	if err != nil {
		return nil, nil, err
	}
	for _, v := range decisions {
		if scope.has(v.Object) {
			report.Decisions = append(report.Decisions, v)
		}
	}
	return report, found, nil
}

// aliveBy decides by the record, and without one by the namespaces.
func aliveBy(id string, found *Found, records recordSet) string {
	recorded, known := records.allocations[id]
	switch {
	case !known:
		return found.alive[id]
	case recorded.unknown != "":
		return "it is unknown whether its allocation lives: " + recorded.unknown
	case recorded.dead == "":
		return "it is on record, and its namespace exists"
	}
	return ""
}

// Collect removes what is leaked and not on record: what is on record is for
// Engine.GC, which has more to do than remove. An allocation that is set up
// meanwhile is left alone.
func (c *Collector) Collect(ctx context.Context, scope Scope, live Live) (*Report, error) {
	report, found, err := c.Examine(ctx, scope, live)
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
		took, err := c.removeAll(ctx, part, byAllocation, found, report)
		if err != nil {
			return report, fmt.Errorf("%d of %d dead allocations are cleaned up: %w", done, len(ids), err)
		}
		size.adapt(took)
		done += len(part)
		c.tell(done, len(ids), report)
	}
	errs := []error{c.Store.RemoveStale()}
	for _, failure := range report.Failures {
		errs = append(errs, failure)
	}
	return report, errors.Join(errs...)
}

func (c *Collector) tell(done, of int, report *Report) {
	if c.Progress != nil {
		c.Progress(done, of)
	}
	if c.Logger != nil {
		c.Logger.Info("removed what dead allocations left", "allocations", done, "of", of, "objects", report.Removed)
	}
}

// removeAll removes the objects of allocations that are dead still: nothing is
// attached until it is done. It returns how long that took.
func (c *Collector) removeAll(ctx context.Context, ids []string, byAllocation map[string][]Object, found *Found, report *Report) (time.Duration, error) {
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
		if _, known := slices.BinarySearch(recorded, id); !known && live(id) == "" && !netns.Exists(filepath.Join(netns.DefaultDir, id)) {
			objects = append(objects, byAllocation[id]...)
		}
	}
	failures := found.remove(ctx, objects)
	report.Removed += len(objects) - len(failures)
	report.Failures = append(report.Failures, failures...)
	return time.Since(started), nil
}

// lock waits until nothing is attached. Between its attempts what waits to be
// attached begins.
func (c *Collector) lock(ctx context.Context) (unlock func(), err error) {
	for range lockAttempts {
		unlock, err = c.Store.LockHost(ctx)
		if !errors.Is(err, state.ErrAttaching) {
			break
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return unlock, err
}

// lockAttempts is how often the lock is asked for before the rest is left to
// the next collection.
const lockAttempts = 5

// scanner knows the files and owners of the conf directory and the records.
func (c *Collector) scanner(ctx context.Context) (scanner, error) {
	s := scanner{cacheDir: c.CacheDir, host: c.host}
	catalog, err := c.catalog()
	if err != nil {
		return s, err
	}
	for _, network := range catalog.Networks {
		s.confLists = append(s.confLists, network.List.Bytes)
	}
	for record, err := range c.Store.List(ctx) {
		var unreadable *state.UnreadableError
		if errors.As(err, &unreadable) {
			continue
		}
		if err != nil {
			return s, err
		}
		for _, a := range record.Attachments {
			s.confLists = append(s.confLists, a.ConfList)
			s.known = append(s.known, ownerOf(a.Network, a.ContainerID, a.Interface))
		}
	}
	return s, nil
}

// catalog returns the networks of the directories that exist: which of two with
// one name wins does not matter here.
func (c *Collector) catalog() (*cniconf.Catalog, error) {
	catalog := &cniconf.Catalog{Dirs: c.ConfDirs}
	for _, dir := range c.ConfDirs {
		part, err := cniconf.Load(dir)
		if errors.Is(err, cniconf.ErrNoDir) {
			continue
		}
		if err != nil {
			return nil, err
		}
		catalog.Networks = append(catalog.Networks, part.Networks...)
		catalog.Broken = append(catalog.Broken, part.Broken...)
	}
	return catalog, nil
}

// records reads what is known, after the scan. An allocation whose record cannot
// be read counts as living.
func (c *Collector) records(ctx context.Context) (recordSet, error) {
	r := recordSet{networks: map[string]bool{}, allocations: map[string]recordedAllocation{}, orchestrated: c.Orchestrated}
	if c.Grace > 0 {
		r.graceCutoff = time.Now().Add(-c.Grace)
	}
	catalog, err := c.catalog()
	if err != nil {
		return r, err
	}
	for _, network := range catalog.Networks {
		r.networks[network.Name] = true
	}
	for record, err := range c.Store.List(ctx) {
		var unreadable *state.UnreadableError
		if errors.As(err, &unreadable) {
			r.allocations[unreadable.ID] = recordedAllocation{unknown: unreadable.Error()}
			continue
		}
		if err != nil {
			return r, err
		}
		r.allocations[record.Allocation.ID] = c.recorded(record)
		for _, a := range record.Attachments {
			r.networks[a.Network] = true
		}
	}
	return r, nil
}

// recorded tells whether an allocation on record lives: it was set up as a whole
// and its namespace lives, or another process has its lock. With a damaged record
// that is unknown, unless a line that can be read proves that the namespace is
// gone.
func (c *Collector) recorded(record state.Record) recordedAllocation {
	var r recordedAllocation
	cut := ""
	for _, a := range record.Attachments {
		r.addresses = append(r.addresses, resultAddresses(a.Result)...)
		switch {
		case a.Batch != "": // added to an allocation that is set up
		case a.Phase == state.Adding:
			cut = "its set-up was interrupted"
		case a.Phase != state.Attached:
			cut = "its teardown did not finish"
		}
	}
	ns, err := state.OpenNamespace(record.Allocation, c.host.orDefault().kernel.open)
	if err == nil {
		_ = ns.Close() // only looked at
	}
	if errors.Is(err, netns.ErrMissing) {
		cut = err.Error()
	}
	if len(record.Damaged) > 0 && (record.Allocation.Netns == "" || !errors.Is(err, netns.ErrMissing)) {
		r.unknown = "its record is damaged: " + record.Damaged[0].String()
		return r
	}
	if cut != "" && c.idle(record.Allocation.ID) {
		r.dead = cut
	}
	return r
}

func (c *Collector) idle(id string) bool {
	lock, err := c.Store.TryLock(id)
	if err == nil {
		lock.Unlock()
	}
	return err == nil
}
