// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package isolate has the host keep attachments apart: in ADD before anything passes from them, when rules or levels change, when the
// host lacks something of it, and until they are gone.
//
// What the host has is derived from what is on record: the rules and levels that are in force (state.HostIsolation), and where each
// attachment is (state.Isolation), which is on record before the host gets anything for it; of attachments on other hosts, what the agent has
// learned (state.Learned). A lock holds both together: while the
// host gets all of it anew, no attachment adds or removes its own.
//
// Attachments without an end on the host are kept apart in the namespaces of their allocations (inside.go), each of which knows all other attachments.
package isolate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/allocnet/allocnet/hook/internal/config"
	"github.com/allocnet/allocnet/hook/internal/operation"
	"github.com/allocnet/allocnet/isolation"
	"github.com/allocnet/allocnet/isolation/filter"
	"github.com/allocnet/allocnet/state"
)

// host is the host, and what is on record of it.
type host struct {
	config *config.Config
	store  *state.Store
}

// Joins returns what tells whether attachments are to be known to the host: apart is whether they are kept apart themselves; the rest is if
// others are, or rules may limit them. What is in force, and the rules, are read once. The error is that of a file of rules with mistakes;
// attachments that are not kept apart, where nothing is, do not need it.
func Joins(c *config.Config, store *state.Store) func(apart bool) (bool, error) {
	h := host{c, store}
	inForce := sync.OnceValues(h.inForce)
	load := sync.OnceValues(func() (filter.Rules, error) {
		before, _ := inForce()
		rules, _, err := h.rulesNow(before)
		return rules, err
	})
	return func(apart bool) (bool, error) {
		before, err := inForce()
		if err != nil {
			return false, err
		}
		rules, mistake := load()
		apart = apart || before != nil
		switch {
		case mistake == nil:
			return apart || rules.Egress > 0, nil
		case apart:
			return false, mistake
		}
		return false, nil
	}
}

// Refresh has the host keep apart what is on record, by the rules of the file and the levels of the networks, unless these are in force. Flows
// that are allowed go on. After a mistake in the file its former rules stay in force, and the error is the mistake.
func Refresh(ctx context.Context, e *operation.Env) error {
	h := host{&e.Config, e.Store}
	w, inForce, mistake := h.load()
	if inForce == nil && mistake == nil && !w.apart() {
		return nil
	}
	if inForce != nil && w.isSame(*inForce) {
		return mistake
	}
	return h.apply(ctx)
}

// Apply is Refresh also if they are in force: what the host has of attachments that are gone is removed.
func Apply(ctx context.Context, e *operation.Env) error {
	h := host{&e.Config, e.Store}
	if inForce, err := h.inForce(); err != nil || inForce == nil {
		return err
	}
	return h.apply(ctx)
}

// apply has the host get all of it; what has failed in namespaces is in the log.
func (h host) apply(ctx context.Context) error {
	_, err := h.applyInside(ctx)
	return err
}

// applyInside is apply, with what has failed in namespaces.
func (h host) applyInside(ctx context.Context) (failures, error) {
	unlock, err := h.store.Isolation().Lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	return h.applyLocked(ctx)
}

// applyLocked is applyInside for a caller that holds the lock.
func (h host) applyLocked(ctx context.Context) (failures, error) {
	w, inForce, mistake := h.load()
	if mistake != nil && inForce == nil {
		return nil, mistake
	}
	members, unread := h.recorded(ctx, w.Levels)
	if unread != nil {
		lacks, err := h.lacks(ctx, w, onHost(members))
		if err != nil || len(lacks) == 0 { // without those that are unknown, these would not be kept apart any more
			return nil, errors.Join(mistake, fmt.Errorf("isolation stays as it is: %w", unread), err)
		}
	}
	failed, err := h.enforce(ctx, w, members, inForce)
	return failed, errors.Join(mistake, err)
}

// lacks returns what the host lacks of what is wanted for attachments, by their IDs.
func (h host) lacks(ctx context.Context, w wanted, members []filter.Member) (map[string][]string, error) {
	rules, err := w.Rules.All()
	if err != nil {
		return nil, err
	}
	return h.config.Filter.Lacks(ctx, filter.State{Rules: rules, Members: members})
}

// Members returns the attachments on record as rules see them, with the levels that their networks have by now. With an error, some of them
// are missing.
func Members(ctx context.Context, e *operation.Env) ([]isolation.Member, error) {
	h := host{&e.Config, e.Store}
	inForce, err := h.inForce()
	if err != nil {
		return nil, err
	}
	levels, err := levelsNow(h.config)
	if err != nil {
		return nil, err
	}
	if inForce != nil {
		levels.keep(inForce.Levels)
	}
	members, unread := h.recorded(ctx, levels)
	all := make([]isolation.Member, len(members))
	for i := range members {
		all[i] = members[i].Member
	}
	return all, unread
}

// Remotes returns the attachments on other hosts that are known, as rules see them.
func Remotes(e *operation.Env) ([]isolation.Member, error) {
	learned, err := host{&e.Config, e.Store}.learned()
	all := []isolation.Member{}
	for _, r := range learned {
		all = append(all, r.Members()...)
	}
	return all, err
}

// enforce has the host get what is wanted, which is on record before. The caller holds the lock.
func (h host) enforce(ctx context.Context, w wanted, members []filter.Member, inForce *wanted) (failures, error) {
	if !w.isNeeded(members) {
		if inForce == nil {
			return nil, nil
		}
		err := h.config.Filter.Apply(ctx, func() (filter.State, error) { return filter.State{}, nil })
		failed := h.enforceInside(ctx, w, inForce)
		if err != nil {
			return failed, err
		}
		return failed, h.store.Isolation().SetInForce(nil, nil)
	}
	if inForce == nil || inForce.text == "" || !w.isSame(*inForce) {
		if err := h.setInForce(w.leaving(inForce)); err != nil {
			return nil, err
		}
	}
	remotes, _ := h.learned()
	err := h.config.Filter.Apply(ctx, func() (filter.State, error) { // nothing is recorded meanwhile that the host would have to know
		rules, err := w.Rules.All()
		return filter.State{Rules: rules, Members: slices.Concat(onHost(members), membersOf(remotes))}, err
	})
	failed := h.enforceInside(ctx, w, inForce)
	if left := w.leaving(inForce); err == nil && !w.isSame(left) {
		err = h.setInForce(w)
	}
	return failed, err
}

// isNeeded tells whether anything is kept from any of the members.
func (w wanted) isNeeded(members []filter.Member) bool {
	for _, m := range members {
		if m.Level != isolation.None || m.Antispoof || m.IsNarrowed() || w.Rules.Egress > 0 {
			return true
		}
	}
	return false
}

// recorded returns all that are on record and in this boot. The error is that of records that cannot be read, of which nothing is
// known.
func (h host) recorded(ctx context.Context, levels networkLevels) (members []filter.Member, unread error) {
	unread = h.each(ctx, func(r *recordedMember) {
		if m, ok := r.at(levels); ok {
			members = append(members, m)
		}
	})
	return members, unread
}

// onHost returns those that have an end on the host.
func onHost(members []filter.Member) []filter.Member {
	return slices.DeleteFunc(slices.Clone(members), func(m filter.Member) bool { return m.Inside })
}

// latest is what was read of records last: an agent needs all for the first attachment of each kind, and few have changed since.
var latest state.Kept[[]recordedMember]

// each calls a function for each attachment that is on record and of this boot.
func (h host) each(ctx context.Context, do func(*recordedMember)) error {
	boot, err := state.BootID()
	if err != nil {
		return err
	}
	var damaged error
	unread := latest.Each(ctx, h.store, func(record state.Record) (all []recordedMember, isOfRecord bool) {
		if before := record.Allocation.BootID; before != "" && before != boot {
			return nil, true
		}
		isOfRecord = len(record.Attachments) > 0 && len(record.Damaged) == 0
		o := operation.NewOperation(h.config, h.store, record)
		damaged = errors.Join(damaged, o.LoadFromCache())
		for _, a := range o.Record.Attachments {
			if m, ok := recordedOf(o.Record.Allocation, a); ok {
				all = append(all, m)
			}
		}
		return all, isOfRecord
	}, func(all []recordedMember) {
		for i := range all {
			do(&all[i])
		}
	})
	return errors.Join(unread, damaged)
}

// source reads all that is on record, also of other hosts. What is not known of these is not allowed, so it keeps nothing from being made.
func (h host) source(ctx context.Context, w wanted) filter.Source {
	return func() (filter.State, error) {
		members, err := h.recorded(ctx, w.Levels)
		remotes, _ := h.learned()
		rules, unread := w.Rules.All()
		return filter.State{Rules: rules, Members: append(onHost(members), membersOf(remotes)...)}, errors.Join(err, unread)
	}
}
