// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package isolate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/allocnet/allocnet/allocation"
	"github.com/allocnet/allocnet/hook/internal/operation"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/isolation"
	"github.com/allocnet/allocnet/isolation/filter"
	"github.com/allocnet/allocnet/state"
)

// namespace is one with attachments that are kept apart in it, or were. Several allocations may have it.
type namespace struct {
	allocations []state.Allocation
	own         []filter.Member
	others      []filter.Member
}

func (n *namespace) isOf(id string) bool {
	return slices.ContainsFunc(n.allocations, func(a state.Allocation) bool { return a.ID == id })
}

// namespaceKey tells the namespaces of allocations from one another.
func namespaceKey(of state.Allocation) string { return cmp.Or(of.NetnsID, of.Netns, of.ID) }

// namespaces returns these. former is what was in force; nil: nothing. Records that cannot be read have attachments that are not known, and not
// allowed.
func (h host) namespaces(ctx context.Context, levels networkLevels, former *wanted) (found []*namespace) {
	isInside := func(r *recordedMember) bool {
		return r.Inside && (levels.of(r.Network, r.level).Inside || r.level.Inside || former != nil && former.Levels[r.Network].Inside)
	}
	byKey, all, keys := map[string]*namespace{}, []filter.Member{}, []string{}
	_ = h.each(ctx, func(r *recordedMember) {
		key := namespaceKey(r.allocation)
		if isInside(r) {
			if byKey[key] == nil {
				byKey[key] = &namespace{}
				found = append(found, byKey[key])
			}
			if n := byKey[key]; !n.isOf(r.allocation.ID) {
				n.allocations = append(n.allocations, r.allocation)
			}
		}
		if m, ok := r.at(levels); ok {
			all, keys = append(all, m), append(keys, key)
		}
	})
	remotes, _ := h.learned()
	for _, n := range found {
		for i, m := range all {
			if m.Inside && byKey[keys[i]] == n {
				n.own = append(n.own, m)
			} else {
				n.others = append(n.others, m)
			}
		}
		n.others = append(n.others, membersOf(remotes)...)
	}
	return found
}

// failures are those in namespaces, by allocation. Each is in the log. A task with CAP_NET_ADMIN may keep others from changing the tables of its own:
// that must not keep other allocations from being attached and detached.
type failures map[string]error

// of returns the failure in the namespace of an allocation.
func (f failures) of(id string) error {
	if f[id] == nil {
		return nil
	}
	return fmt.Errorf("allocation %s: %w", id, f[id])
}

// eachInside calls a function for each of the namespaces that are there, with what it has to have.
func (h host) eachInside(ctx context.Context, w wanted, former *wanted, do func(*namespace, filter.Namespace, filter.Inside) error) failures {
	failed := failures{}
	for _, n := range h.namespaces(ctx, w.Levels, former) {
		ns, err := h.config.OpenNamespace(n.allocations[0])
		if errors.Is(err, netns.ErrMissing) {
			continue
		}
		if err == nil {
			var rules isolation.Rules
			if rules, err = w.Rules.All(); err == nil {
				err = do(n, ns, filter.Inside{Rules: rules, Own: n.own, Others: n.others})
			}
			err = errors.Join(err, ns.Close())
		}
		if err != nil {
			for _, a := range n.allocations {
				failed[a.ID] = err
				h.config.Logger.Warn("isolation in a namespace is not as it has to be", "allocation", a.ID, "error", err)
			}
		}
	}
	return failed
}

// enforceInside has the namespaces get what is wanted, and ends the flows of addresses there. The caller holds the lock.
func (h host) enforceInside(ctx context.Context, w wanted, former *wanted, ended ...netip.Addr) failures {
	if !w.Levels.anyInside() && (former == nil || !former.Levels.anyInside()) {
		return nil
	}
	return h.eachInside(ctx, w, former, func(_ *namespace, ns filter.Namespace, s filter.Inside) error {
		s.Ended = ended
		return h.config.Filter.ApplyInside(ctx, ns, s)
	})
}

// tellInside has namespaces in which attachments are kept apart know what is on record by now, of which that of one allocation has to. Where there
// are none it does nothing.
func (h host) tellInside(ctx context.Context, id string) error {
	if inForce, err := h.inForce(); err != nil || inForce == nil || !inForce.Levels.anyInside() {
		return err
	}
	return h.refreshInside(ctx, id, false)
}

// refreshInside does so where rules and levels are as they were, perhaps of the one allocation alone, and else applies all.
func (h host) refreshInside(ctx context.Context, id string, single bool) error {
	unlock, err := h.store.Isolation().Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	w, inForce, err := h.load()
	if err != nil || inForce == nil || !w.isSame(*inForce) {
		failed, err := h.applyLocked(ctx)
		return errors.Join(err, failed.of(id))
	}
	return h.eachInside(ctx, w, nil, func(n *namespace, ns filter.Namespace, s filter.Inside) error {
		if single && !n.isOf(id) {
			return nil
		}
		return h.config.Filter.ApplyInside(ctx, ns, s)
	}).of(id)
}

// Close has nothing pass by the interface of an attachment that is kept apart inside, and on record for that, until Readmit. It is called before
// ADD. From then on the agent hears of what is removed there.
func Close(ctx context.Context, o *operation.Operation, a state.Attachment) error {
	if a.Isolation == nil || !a.Isolation.Inside {
		return nil
	}
	ns, err := o.Namespace()
	if err != nil {
		return err
	}
	_ = ns.Announce() // without it the agent sees at its next comparison what is removed
	return host{o.Config, o.Store}.refreshInside(ctx, o.Record.Allocation.ID, true)
}

// admitInside records the addresses that ADD has reported, and has pass what rules allow.
func admitInside(ctx context.Context, o *operation.Operation, a *state.Attachment) error {
	at := *a.Isolation
	if at.MAC, at.Addresses = inside(*a); at.MAC == "" || len(at.Addresses) == 0 {
		return fmt.Errorf("isolation of interface %s: its plugins have reported no address, so that nothing may pass", a.Interface)
	}
	if _, err := net.ParseMAC(at.MAC); err != nil {
		return fmt.Errorf("isolation of interface %s: its plugins have reported the MAC: %w", a.Interface, err)
	}
	a.Isolation = &at
	if err := o.Lock.Write(*a); err != nil {
		return err
	}
	return host{o.Config, o.Store}.refreshInside(ctx, o.Record.Allocation.ID, false)
}

// forgetInside has namespaces not know an attachment of another one any more. One that still does is told of all when the next one is attached.
func (h host) forgetInside(ctx context.Context, w wanted, gone filter.Member) error {
	if !w.Levels.anyInside() {
		return nil
	}
	h.eachInside(ctx, w, nil, func(n *namespace, ns filter.Namespace, _ filter.Inside) error {
		if gone.Inside && n.isOf(state.AllocationOf(gone.ID)) { // it has an interface there still: see Leave
			return nil
		}
		return h.config.Filter.RemoveInside(ctx, ns, gone)
	})
	return context.Cause(ctx)
}

// deniedInside returns what was dropped in the namespace of an allocation, if it keeps anything apart.
func (h host) deniedInside(ctx context.Context, levels networkLevels, a *allocation.Allocation) (map[string]isolation.Denied, error) {
	if !slices.ContainsFunc(a.Attachments, func(n allocation.Attachment) bool { return levels[n.Network].Inside }) {
		return nil, nil
	}
	record, err := h.store.Read(a.ID)
	if errors.Is(err, state.ErrNotFound) { // it is gone meanwhile
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	ns, err := h.config.OpenNamespace(record.Allocation)
	if errors.Is(err, netns.ErrMissing) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	counts, err := h.config.Filter.DeniedInside(ctx, ns)
	return counts, errors.Join(err, ns.Close())
}
