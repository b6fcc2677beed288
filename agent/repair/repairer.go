// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package repair

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/wake"
)

// Engine compares attachments with what is there, and repairs them.
type Engine interface {
	RepairAttachments(ctx context.Context, r hook.RepairRequest) ([]hook.Drift, error)
	CheckUnknown(ctx context.Context, r hook.CheckRequest) error
}

// Observer counts what rounds find.
type Observer interface {
	// Drifted is an attachment that lacks something, of which nothing was known before.
	Drifted(network string)
	// Repaired is a repair of an attachment. The time is that since the kernel told of the
	// damage; 0 if it did not.
	Repaired(network string, took time.Duration, err error)
}

// Config configures a Repairer. All fields but Outside and DrainTimeout are required.
type Config struct {
	Engine Engine
	// Watch tells of what is removed until the context ends; see the function Watch.
	Watch func(ctx context.Context, removed func(Removal), deaf func(error)) error
	// Outside returns an error if the process does not see the namespaces of the host; then
	// rounds do nothing. Nil: it sees them.
	Outside  func() error
	Observer Observer
	// DrainTimeout is how long an attachment may be attached again when the repairer is stopped, at most
	// 30 s. Default: 30 s.
	DrainTimeout time.Duration
	// Logger gets a line for each attachment that lacks something, and for what was repaired.
	Logger hclog.Logger
}

// Repairer keeps the attachments of a host as they were set up.
type Repairer struct {
	config Config
	kicks  wake.Signal
	// series are those of the allocations that lacked something. They and known are of the loop
	// alone.
	series map[string]*series
	// known is what each attachment lacked after the last round.
	known map[attachment]damage
	// looked is when the last round began, and unseen when the last one that looked at an
	// allocation did, of those that the last round left out.
	looked time.Time
	unseen map[string]time.Time
	// busy is the pause after the last round, if that has left out an allocation that another call was
	// changing; else 0.
	busy time.Duration
	// late are those allocations, with when the kernel told of damage that may be theirs; zero if it has not.
	late map[string]time.Time

	reattachments reattachments

	mu     sync.Mutex // guards all below
	status api.Repair
	// removals are those of which is known who made them.
	removals removals
	// told is when the kernel last told of something, and unanswered when it first did after the last
	// round had looked; zero if it has not.
	told, unanswered time.Time
}

type attachment struct{ allocation, iface string }

// New returns a repairer that works in a mode. See Run.
func New(c Config, mode hook.RepairMode) *Repairer {
	return &Repairer{config: c, status: api.Repair{Mode: string(mode), Damaged: []api.Damage{}, Waiting: []api.WaitingRepair{}}, kicks: wake.NewSignal(), series: map[string]*series{}, known: map[attachment]damage{}}
}

// Configure sets the mode of the rounds that begin from now on. It may be called at any time.
func (r *Repairer) Configure(mode hook.RepairMode) {
	r.mu.Lock()
	r.status.Mode = string(mode)
	r.mu.Unlock()
	r.kicks.Send()
}

// Run makes rounds until ctx ends: one at its start, and one after each event, at an interval,
// and when the pause of an allocation that was repaired too often ends.
func (r *Repairer) Run(ctx context.Context) {
	var background sync.WaitGroup
	defer background.Wait()
	defer r.reattachments.group.Wait()
	background.Go(func() { r.checkUnknown(ctx) })
	background.Go(func() { r.watch(ctx) })
	rests := rests{}
	for ctx.Err() == nil {
		began := time.Now()
		r.round(ctx)
		ended := time.Now()
		took := ended.Sub(began)
		awaitRound(ctx, r.kicks, took, rests.after(ended, took), r.nextDue(began))
	}
}

// watchPause is the time between two attempts to hear of events.
const watchPause = 5 * time.Second

// watch kicks a round for each event until ctx ends. After a failure to hear, it is tried again, and
// logged if it is another one.
func (r *Repairer) watch(ctx context.Context) {
	last := ""
	warn := func(text string, err error) {
		if err.Error() != last {
			r.config.Logger.Warn(text, "interval", interval, "error", err)
		}
		last = err.Error()
	}
	deaf := func(err error) { warn("damage in namespaces is noticed at an interval only", err) }
	for ; ctx.Err() == nil; wake.After(ctx, watchPause) {
		if err := r.config.Watch(ctx, r.hear, deaf); err != nil {
			warn("damage is noticed at an interval only", err)
		}
	}
}

// busyPause is the time from the first round that left out an allocation that another call was changing
// to the next one. It doubles with each further one, up to the interval: the call may hang.
const busyPause = time.Second

// nextDue is when the first of the allocations is due that a round has left out, or will; zero if
// there is none.
func (r *Repairer) nextDue(round time.Time) (next time.Time) {
	if r.busy > 0 && r.busy < interval {
		next = round.Add(r.busy)
	}
	for _, s := range r.series {
		if due := s.due(); s.pause() > 0 && due.After(round) && (next.IsZero() || due.Before(next)) {
			next = due
		}
	}
	return next
}

// round compares all attachments but those that are not due.
func (r *Repairer) round(ctx context.Context) {
	if r.config.Outside != nil && r.config.Outside() != nil {
		return
	}
	running := r.end()
	held, recorded := r.held(time.Now()), map[string]bool{}
	for _, id := range running {
		held[id] = true
	}
	except := func(id string) bool {
		recorded[id] = true
		return held[id]
	}
	began := time.Now()
	drifts, err := r.config.Engine.RepairAttachments(ctx, hook.RepairRequest{
		Mode: r.mode(), LastChecks: true, Except: except, RemovedBy: r.removedBy, Announce: true, Defer: true,
	})
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		r.config.Logger.Warn("compare the attachments with what is there", "error", err)
	} else {
		r.forget(held, recorded)
	}
	first, busy, late := r.answer(began), time.Duration(0), map[string]time.Time{}
	for _, d := range drifts {
		switch d.Skipped {
		case hook.SkippedBusy:
			held[d.Allocation], busy = true, min(max(2*r.busy, busyPause), interval)
			late[d.Allocation] = r.toldOf(d.Allocation, first)
		case hook.SkippedReattachment:
			held[d.Allocation] = true
			r.reattach(ctx, d.Allocation, r.toldOf(d.Allocation, first))
		}
	}
	r.busy = busy
	known := map[attachment]damage{}
	for a, d := range r.known {
		if held[a.allocation] {
			known[a] = d
		}
	}
	drifts = slices.DeleteFunc(drifts, func(d hook.Drift) bool { return d.Skipped != "" })
	for _, d := range drifts {
		r.note(d, r.toldOf(d.Allocation, first))
		if !d.Repaired {
			known[attachment{d.Allocation, d.Interface}] = r.damage(d)
		}
	}
	r.count(drifts)
	r.known, r.late = known, late
	r.look(began, held)
	r.publish()
}

// toldOf returns when the kernel told of damage that may be an allocation's, and which it told of
// first since the round before; zero if it has not.
func (r *Repairer) toldOf(id string, first time.Time) time.Time {
	if at, was := r.late[id]; was && !at.IsZero() {
		return at
	}
	return first
}

// damage is that of an attachment that lacks something, and may have lacked it before. A later
// round does not know any more who has removed it.
func (r *Repairer) damage(d hook.Drift) damage {
	before, known := r.known[attachment{d.Allocation, d.Interface}]
	if !known {
		return damage{d, time.Now()}
	}
	if len(d.RemovedBy) == 0 {
		d.RemovedBy = before.RemovedBy
	}
	return damage{d, before.since}
}

// removedBy returns the processes that have removed rules of the chains of which an allocation lacks
// some. Which rules they were is not known.
func (r *Repairer) removedBy(id string, missing []string) []hook.Remover {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.removals.of(missing, r.lookedAt(id))
}

// lookedAt is when the last round began that looked at an allocation.
func (r *Repairer) lookedAt(id string) time.Time {
	if at, left := r.unseen[id]; left {
		return at
	}
	return r.looked
}

// look notes that a round looked at all allocations but those that were held.
func (r *Repairer) look(began time.Time, held map[string]bool) {
	unseen := map[string]time.Time{}
	for id, held := range held {
		if held {
			unseen[id] = r.lookedAt(id)
		}
	}
	r.looked, r.unseen = began, unseen
}

// forget drops what is known of allocations that are gone: one may come that has the same ID.
func (r *Repairer) forget(held, recorded map[string]bool) {
	for id := range held {
		if !recorded[id] {
			delete(held, id)
			delete(r.series, id)
		}
	}
}

// held are the allocations that are not due. Series that are over are forgotten.
func (r *Repairer) held(now time.Time) map[string]bool {
	held := map[string]bool{}
	for id, s := range r.series {
		held[id] = now.Before(s.due())
		if now.After(s.end()) {
			delete(r.series, id)
		}
	}
	return held
}

func (r *Repairer) count(drifts []hook.Drift) {
	if r.mode() == hook.RepairReport {
		return
	}
	now, failed, removers := time.Now(), map[string]bool{}, map[string][]hook.Remover{}
	for _, d := range drifts {
		if !d.Reported {
			failed[d.Allocation] = failed[d.Allocation] || !d.Repaired
			removers[d.Allocation] = union(removers[d.Allocation], d.RemovedBy)
		}
	}
	for id, failed := range failed {
		if r.series[id] == nil {
			r.series[id] = &series{}
		}
		r.series[id].repaired(now, failed)
		if by := removers[id]; len(by) > 0 {
			r.series[id].removers = by
		}
	}
}

func union(a, b []hook.Remover) []hook.Remover {
	for _, by := range b {
		if !slices.Contains(a, by) {
			a = append(a, by)
		}
	}
	return a
}

// note tells of an attachment that lacked something. It is logged once for what stays missing.
func (r *Repairer) note(d hook.Drift, first time.Time) {
	before, known := r.known[attachment{d.Allocation, d.Interface}]
	if !known {
		r.config.Observer.Drifted(d.Network)
	}
	log := r.config.Logger.With("allocation", d.Allocation, "network", d.Network, "interface", d.Interface, "missing", lacking(d))
	if len(d.RemovedBy) > 0 {
		log = log.With("removed_by", d.RemovedBy)
	}
	reports := r.mode() == hook.RepairReport
	if !reports && !d.Reported {
		r.config.Observer.Repaired(d.Network, since(first), failure(d))
	}
	switch isNew := !known || !slices.Equal(lacking(before.Drift), lacking(d)); {
	case d.Repaired:
		log.Warn("repaired an attachment")
	case isNew && reports:
		log.Warn("an attachment lacks something")
	case isNew:
		log.Error("an attachment is not repaired", "error", failure(d))
	}
}

// since is the time since then; 0 if it is not known.
func since(then time.Time) time.Duration {
	if then.IsZero() {
		return 0
	}
	return time.Since(then)
}

var errUnrepairable = errors.New("the network has to be attached again: allocnet repair --reattach, or stop the allocation and start it again")

// failure is why an attachment is not repaired; nil if it is.
func failure(d hook.Drift) error {
	if d.Repaired {
		return nil
	}
	return cmp.Or(d.Err, errUnrepairable)
}

// lacking is all that was missing, in words.
func lacking(d hook.Drift) []string { return slices.Concat(d.Missing, d.Unrepairable) }
