// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package repair compares attachments with the host and their namespaces, and makes what is missing, or attaches them again.
package repair

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/allocnet/allocnet/allocation"
	"github.com/allocnet/allocnet/hook/internal/config"
	"github.com/allocnet/allocnet/hook/internal/inspect"
	"github.com/allocnet/allocnet/hook/internal/isolate"
	"github.com/allocnet/allocnet/hook/internal/kernel"
	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/hook/internal/operation"
	"github.com/allocnet/allocnet/internal/cniexec"
	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/internal/inprocess/plugin"
	"github.com/allocnet/allocnet/internal/inprocess/remedy"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/state"
)

// repairBatch is how many allocations are repaired at once. Those that lack something are locked
// meanwhile, each with an open file.
const repairBatch = 250

// Attachments is Engine.RepairAttachments.
func Attachments(ctx context.Context, e *operation.Env, r Request) ([]Drift, error) {
	r.Mode = cmp.Or(r.Mode, Rules)
	if !slices.Contains([]Mode{ReportOnly, Rules, Reattach}, r.Mode) {
		return nil, errdefs.As(errdefs.Refused, fmt.Errorf("repair mode %q: want %q, %q or %q", r.Mode, ReportOnly, Rules, Reattach))
	}
	var outdated error
	if r.Mode != ReportOnly {
		outdated = isolate.Refresh(ctx, e)
	}
	if r.Announce { // the agent tells of it when files change
		outdated = nil
	}
	drifts, err := repairAll(ctx, e, r)
	return drifts, errors.Join(err, outdated)
}

func repairAll(ctx context.Context, e *operation.Env, r Request) ([]Drift, error) {
	ids := r.IDs
	if len(ids) == 0 {
		var err error
		if ids, err = e.Store.IDs(); err != nil {
			return nil, err
		}
	}
	if r.Except != nil {
		ids = slices.DeleteFunc(slices.Clone(ids), r.Except)
	}
	if r.Mode == Reattach && !r.Defer && len(ids) > 1 {
		return reattachEach(ctx, e, ids, r)
	}
	return repairParts(ctx, e, ids, r)
}

// repairParts repairs allocations, a number of them at once.
func repairParts(ctx context.Context, e *operation.Env, ids []string, r Request) ([]Drift, error) {
	var drifts []Drift
	for part := range slices.Chunk(ids, repairBatch) {
		found, err := repairPart(ctx, e, part, r)
		drifts = append(drifts, found...)
		if err != nil {
			return drifts, err
		}
	}
	return drifts, nil
}

// repairPart repairs some allocations together. They are looked at without their locks first, so
// that callers of those that lack nothing, which are most, do not wait.
func repairPart(ctx context.Context, e *operation.Env, ids []string, r Request) ([]Drift, error) {
	seen, err := oneRound(ctx, e, ids, Request{IDs: r.IDs, Mode: ReportOnly, LastChecks: r.LastChecks, Announce: r.Announce, reattaches: r.Mode == Reattach}, false)
	if err != nil {
		return nil, err
	}
	var skipped []Drift
	var suspects []string
	for _, d := range seen {
		switch {
		case d.Skipped != "":
			skipped = append(skipped, d)
		case !slices.Contains(suspects, d.Allocation):
			suspects = append(suspects, d.Allocation)
		}
	}
	if len(suspects) == 0 {
		return skipped, nil
	}
	drifts, err := oneRound(ctx, e, suspects, r, true)
	return append(skipped, drifts...), err
}

// oneRound makes one round, in which the allocations are locked or not.
func oneRound(ctx context.Context, e *operation.Env, ids []string, r Request, locked bool) ([]Drift, error) {
	round, err := newRound(e, r)
	if err != nil {
		return nil, err
	}
	defer round.end()
	unlock := func() {}
	if locked { // what is missing is not garbage; no allocation waits for the end of a collection
		if unlock, err = e.Store.RLockHost(ctx); err != nil {
			return nil, err
		}
	}
	err = round.restoreAll(ctx, ids, locked)
	unlock()
	if err != nil {
		return nil, err
	}
	if locked {
		round.ask(ctx)
		round.reattachAll(ctx)
	}
	return round.result(), nil
}

// restoreAll makes what allocations lack, which are locked or not, but does not ask plugins that are unknown.
func (r *repairRound) restoreAll(ctx context.Context, ids []string, locked bool) error {
	for _, id := range ids {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		r.begin(id)
	}
	if !locked {
		r.end()
	}
	for _, o := range r.operations {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		r.inspect(ctx, o)
	}
	r.commit(ctx)
	r.isolate(ctx)
	return nil
}

type repairRound struct {
	env     *operation.Env
	request Request
	// apart is the comparison with what the host has to keep attachments apart.
	apart      *isolate.Comparison
	operations []*operation.Operation
	repairs    []*Repairing
	// drifts are those of allocations as a whole.
	drifts []Drift
}

func newRound(e *operation.Env, r Request) (*repairRound, error) {
	apart, err := isolate.Compare(&e.Config, e.Store)
	return &repairRound{env: e, request: r, apart: apart}, err
}

// Repairing is one attachment compared with its record, and what is made of what it lacks.
type Repairing struct {
	remedy.Repair

	round     *repairRound
	operation *operation.Operation
	// At is its place in the record.
	At int
	// changes are the rules that it has to have; nil if there are none.
	changes *plugin.Changes
	// asks is whether its plugins, which are unknown, are still to be asked, and told whether an
	// earlier repair has told of what they said.
	asks, told bool
	// Moved says what proves that a task has moved the interface, so that nothing inside is compared; empty: nothing does.
	Moved string
	// Skipped says why they were not asked, and checkSucceeded is whether their CHECK has.
	Skipped        string
	checkSucceeded bool
	removers       []allocation.Remover
	// stands is whether allocnet stands in for plugins that are not installed any more.
	stands bool
	// inProcess is whether it is repaired in this process, and differs how the interface of one whose plugins are
	// unknown differs from what was attached; nil if it does not.
	inProcess bool
	differs   error
	// reattaches is whether it is attached again if it has to be, deferred whether that is left to
	// another call, and reattached whether it was.
	reattaches, deferred, reattached bool

	started time.Time
}

// Attachment is the attachment on record.
func (p *Repairing) Attachment() *state.Attachment { return &p.operation.Record.Attachments[p.At] }

// ensure makes something that is missing, unless nothing is to be made.
func (p *Repairing) ensure(what string, make func() error) {
	if !slices.Contains(p.Missing, what) { // its plugins may have noted it
		p.Missing = append(p.Missing, what)
	}
	if p.DryRun || make == nil {
		return
	}
	if err := make(); err != nil {
		p.Err = errors.Join(p.Err, fmt.Errorf("%s: %w", what, err))
	}
}

// begin locks and reads an allocation, unless another call works on it.
func (r *repairRound) begin(id string) {
	o, err := r.env.TryBegin(id)
	switch {
	case errors.Is(err, state.ErrLocked):
		r.drifts = append(r.drifts, Drift{Allocation: id, Skipped: SkippedBusy})
	case err != nil:
		r.drifts = append(r.drifts, Drift{Allocation: id, Err: fmt.Errorf("allocation %s: %w", id, err)})
	default:
		r.operations = append(r.operations, o)
	}
}

func (r *repairRound) end() {
	for _, o := range r.operations {
		o.End()
	}
}

// inspect repairs an allocation but for its rules.
func (r *repairRound) inspect(ctx context.Context, o *operation.Operation) {
	id := o.Record.Allocation.ID
	switch {
	case !o.HasRecord():
		if len(r.request.IDs) > 0 {
			r.drifts = append(r.drifts, Drift{Allocation: id, Err: fmt.Errorf("allocation %s %w", id, state.ErrNotFound)})
		}
		return
	case len(o.Record.Damaged) > 0:
		r.drifts = append(r.drifts, Drift{Allocation: id, Err: o.DamagedRecord(nil)})
		return
	}
	ns, err := o.Namespace()
	if errors.Is(err, netns.ErrMissing) {
		r.drifts = append(r.drifts, Drift{Allocation: id, Skipped: "its namespace is gone"})
		return
	}
	if err == nil {
		if r.request.Announce {
			_ = ns.Announce() // without it changes are seen by the next comparison
		}
		err = r.inspectIn(ctx, o, ns)
	}
	if err != nil {
		r.drifts = append(r.drifts, Drift{Allocation: id, Err: fmt.Errorf("allocation %s: %w", id, err)})
	}
}

func (r *repairRound) inspectIn(ctx context.Context, o *operation.Operation, ns kernel.Namespace) error {
	if err := r.repairLoopback(o, ns); err != nil {
		return err
	}
	for i, a := range o.Record.Attachments {
		if !onrecord.IsComplete(a) {
			r.drifts = append(r.drifts, Drift{Allocation: o.Record.Allocation.ID, Network: a.Network, Interface: a.Interface, Skipped: fmt.Sprintf("its phase is %q", a.Phase)})
			continue
		}
		r.inspectAttachment(ctx, o, i, ns)
	}
	return nil
}

// inspectAttachment repairs one but for its rules, and plugins that are still to be asked.
func (r *repairRound) inspectAttachment(ctx context.Context, o *operation.Operation, at int, ns kernel.Namespace) {
	p := &Repairing{round: r, operation: o, At: at, started: time.Now(), reattaches: r.request.Mode == Reattach || r.request.reattaches}
	p.DryRun = r.request.Mode == ReportOnly
	r.repairs = append(r.repairs, p)
	p.plugins(ctx, ns, r.request.LastChecks)
	p.spareMoved(ctx, ns)
	if len(p.Unrepairable) == 0 && p.Err == nil && p.Moved == "" {
		p.Err = errors.Join(p.Err, p.around(ctx, ns))
	}
}

// spareMoved makes what seems broken of an interface no damage if something proves that a task has moved it, and repairs what the host
// has for it, such as rules that guard the host from it. A caller that attaches again is told why it does not.
func (p *Repairing) spareMoved(ctx context.Context, ns kernel.Namespace) {
	if len(p.Unrepairable) == 0 && p.Err == nil || p.reattaches {
		return
	}
	present, err := ns.Interfaces()
	if err != nil { // it stays broken, which another look has to confirm
		return
	}
	moved := inspect.Moved(p.operation.Record, p.operation.Config.Host, *p.Attachment(), present)
	if moved == nil {
		return
	}
	found := remedy.Repair{DryRun: p.DryRun, Moved: true}
	if !p.DryRun {
		found.Missing = p.Missing // it is made already
	}
	p.Moved, p.Repair, p.changes = moved.Error(), found, nil
	if p.inProcess {
		p.plugins(ctx, ns, false)
	}
	if len(p.Unrepairable) > 0 {
		p.changes = nil
	}
	p.Unrepairable, p.Err = nil, nil
}

func (r *repairRound) repairLoopback(o *operation.Operation, ns kernel.Namespace) error {
	present, err := ns.Interfaces()
	if err != nil || inspect.Loopback(o.Record.Allocation, present) == nil {
		return err
	}
	d := Drift{Allocation: o.Record.Allocation.ID, Interface: "lo", Missing: []string{"interface lo is down"}}
	if r.request.Mode != ReportOnly {
		d.Err = ns.SetLoopbackUp()
		d.Repaired = d.Err == nil
	}
	r.drifts = append(r.drifts, d)
	return nil
}

// commit adds the rules that are missing, in the order in which they were made first.
func (r *repairRound) commit(ctx context.Context) {
	ordered := slices.DeleteFunc(slices.Clone(r.repairs), func(p *Repairing) bool { return p.changes == nil || len(p.Unrepairable) > 0 })
	if len(ordered) == 0 {
		return
	}
	slices.SortStableFunc(ordered, func(a, b *Repairing) int { return a.Attachment().Created.Compare(b.Attachment().Created) })
	changes := make([]*plugin.Changes, len(ordered))
	var holds []*os.File
	for i, p := range ordered {
		changes[i] = p.changes
		if lock := p.operation.Lock; lock != nil && lock.File() != nil && !slices.Contains(holds, lock.File()) {
			holds = append(holds, lock.File())
		}
	}
	limit := r.env.Config.CallTimeout
	limited, stop := context.WithTimeoutCause(ctx, limit, &cniexec.CommitTimeoutError{Limit: limit})
	defer stop()
	r.env.Config.InProcess.CommitMissing(limited, holds, changes)
	for _, p := range ordered {
		p.prove()
	}
}

// ask runs CHECK of plugins that are unknown. They may hang: meanwhile only their allocations are
// locked.
func (r *repairRound) ask(ctx context.Context) {
	asking := map[*operation.Operation]bool{}
	for _, p := range r.repairs {
		asking[p.operation] = asking[p.operation] || p.asks || p.reattaches && len(p.Unrepairable) > 0
	}
	for _, o := range r.operations {
		if !asking[o] {
			o.End()
		}
	}
	r.askEach(func(p *Repairing) error { return p.askTwice(ctx) })
	for _, o := range r.operations {
		if asking[o] {
			NoteSucceeded(o, NewlySucceeded(r.repairs))
		}
	}
}

// result returns what was found, and tells the observers of what was repaired.
func (r *repairRound) result() []Drift {
	drifts := r.drifts
	for _, p := range r.repairs {
		if !p.Found() {
			if p.Moved != "" {
				drifts = append(drifts, p.drift())
			}
			if p.Moved != "" || !p.asks {
				continue
			}
		}
		if r.request.RemovedBy != nil {
			p.removers = r.request.RemovedBy(p.operation.Record.Allocation.ID, p.Missing)
		}
		drifts = append(drifts, p.drift())
		if r.request.Mode != ReportOnly && !p.isTold() && !p.deferred {
			r.env.Config.Report(p.observation())
		}
	}
	sortDrifts(drifts)
	return drifts
}

func (p *Repairing) drift() Drift {
	a := p.Attachment()
	d := Drift{
		Allocation: p.operation.Record.Allocation.ID, Network: a.Network, Interface: a.Interface,
		Missing: p.Missing, Unrepairable: p.Unrepairable, RemovedBy: p.removers, Reported: p.isTold(),
	}
	if !p.Found() {
		d.Skipped = p.Moved
	}
	if p.Err != nil {
		d.Err = p.operation.Failure("repair", *a, 1, p.Err)
	}
	d.Reattached = p.reattached
	d.Repaired = !p.DryRun && d.Err == nil && (len(p.Unrepairable) == 0 || p.reattached)
	if p.deferred {
		d.Skipped = SkippedReattachment
	}
	return d
}

func (p *Repairing) observation() config.Observation {
	d := p.drift()
	err := d.Err
	if err == nil && !d.Repaired {
		err = p.operation.Failure("repair", *p.Attachment(), 1, inspect.Damaged("%s: the network has to be attached again", p.Unrepairable[0]))
	}
	observation := p.operation.Observation(config.OpRepair, *p.Attachment(), 1, p.started, err)
	observation.Missing = slices.Concat(p.Missing, p.Unrepairable)
	observation.RemovedBy = p.removers
	return observation
}
