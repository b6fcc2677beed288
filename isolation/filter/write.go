// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package filter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/allocnet/allocnet/internal/netfilter"
)

// errOutdated reports a table that Apply has to make: another version of allocnet has made it, or the other table is not without it.
var errOutdated = errors.New("the tables are those of another version, or not complete")

// Guard has nothing come from an end of an attachment until that is added. It is called before the end is up, and makes the
// table if there is neither. Where only Apply can make it, because others have something in it, nothing is changed. Bridge is empty for ptp.
func (Kernel) Guard(ctx context.Context, id, end, bridgeName string) error {
	t, other := forms().inet, &forms().bridge.Table
	if bridgeName != "" {
		t, other = forms().bridge, &forms().inet.Table
	}
	return change(ctx, "guard "+end, func(s *netfilter.Socket, b *netfilter.Batch) error {
		isMade, err := s.HasChain(&t.Table, t.version)
		if err != nil {
			return err
		}
		if !isMade {
			b.Guard()
			for _, table := range []*netfilter.Table{&t.Table, other} {
				if tables, err := s.Tables(table.Family); err != nil || slices.Contains(tables, name) {
					return errors.Join(err, errOutdated)
				}
			}
			between(t, nil).bring(b)
		}
		b.AddTable(&t.Table) // one that is dormant wakes
		for _, set := range []string{guarded, forged} {
			b.AddElements(&t.Table, set, []netfilter.Element{{Key: netfilter.LinkKey(end), Comment: ownerText(id)}})
		}
		return nil
	})
}

// change has the kernel execute one batch in this network namespace, and end the flows of addresses after that.
func change(ctx context.Context, what string, fill func(*netfilter.Socket, *netfilter.Batch) error, ended ...netip.Addr) error {
	s, err := netfilter.Dial(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	return changeBy(s, what, func(b *netfilter.Batch) error { return fill(s, b) }, ended...)
}

// changeBy is change by a connection that there is.
func changeBy(s *netfilter.Socket, what string, fill func(*netfilter.Batch) error, ended ...netip.Addr) error {
	err := s.Change(fill)
	if err == nil && len(ended) > 0 {
		err = s.ForgetFlows(ended)
	}
	if err != nil {
		return fmt.Errorf("isolation: %s: %w", what, err)
	}
	return nil
}

// Add adds the elements of an attachment, before its interface inside is up, at the same time as others add and remove theirs. It is safe to
// repeat. With an error the host lacks something for it, which Complete makes.
func (Kernel) Add(ctx context.Context, rules Rules, m Member) error {
	s, err := netfilter.Dial(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	if !m.needsTables(rules.Egress > 0) {
		if has, err := s.HasChain(&netfilter.Table{Family: netfilter.INet, Name: name}, "forward"); err != nil || !has {
			return err
		}
	}
	r, err := rules.about(&m)
	if err == nil {
		err = add(s, r, &m)
	}
	if err != nil {
		return fmt.Errorf("isolation: add %s: %w", m.ID, err)
	}
	return answerFor(&m)
}

// add adds the elements of an attachment to tables that have everything else for it.
func add(s *netfilter.Socket, r *ruleset, m *Member) error {
	k := r.kindOf(&m.Member)
	all, isReady, err := r.ready(s, m, k)
	if err != nil {
		return err
	}
	if !isReady {
		return errOutdated
	}
	if isNew, err := isFirst(s, all); err != nil || isNew {
		return cmp.Or(err, errOutdated)
	}
	err = s.Change(func(b *netfilter.Batch) error {
		r.expect(b)
		for _, p := range all {
			b.AddElements(&netfilter.Table{Family: p.family, Name: name}, p.set, []netfilter.Element{p.Element})
		}
		return nil
	})
	if err != nil {
		return err
	}
	return m.requireAnswered(k)
}

// requireAnswered is an error if an attachment that was added is apart on a bridge where the host does not answer: the last one that was so there has gone
// meanwhile.
func (m *Member) requireAnswered(k *kind) error {
	if m.isApart(k) && !isRouted(m.Bridge) {
		return errOutdated
	}
	return nil
}

// Complete makes what Add lacks for an attachment, which the state has: what is for the first one of its kind, or else everything. Its caller
// keeps others from changing records and tables meanwhile: the elements of one that is on record, and does not have them any more, would stay.
func (f Kernel) Complete(ctx context.Context, rules Rules, m Member, state Source) error {
	s, err := netfilter.Dial(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	r, err := rules.about(&m)
	if err != nil {
		return err
	}
	k := r.kindOf(&m.Member)
	if _, isReady, err := r.ready(s, &m, k); err != nil || !isReady || addFirst(s, r, &m, k) != nil || m.requireAnswered(k) != nil {
		return f.Apply(ctx, state)
	}
	return answerFor(&m)
}

// ready returns the elements of an attachment, and whether they can be added: the tables are complete for the rules, and no other one has them.
func (r *ruleset) ready(s *netfilter.Socket, m *Member, k *kind) (all []placed, isReady bool, err error) {
	if m.isApart(k) && !isRouted(m.Bridge) { // the first one that is apart makes that of its bridge
		return nil, false, nil
	}
	if has, err := s.HasChain(inetTable, stamp+r.sum); err != nil || !has {
		return nil, false, err
	}
	if isFree, err := isFree(s, m); err != nil || !isFree {
		return nil, false, err
	}
	ofBridges, err := bridgeMACs([]Member{*m})
	return elementsOf(m, k, ofBridges[m.Bridge]), true, err
}

// isFree tells whether no other attachment has an address or a MAC in the tables: what is there would stay that one's, and go with it.
func isFree(s *netfilter.Socket, m *Member) (bool, error) {
	for _, a := range m.Addresses {
		if isTaken, err := isOfOther(s, m, a); err != nil || isTaken {
			return false, err
		}
	}
	for _, p := range m.common() {
		e, ok, err := s.Element(&netfilter.Table{Family: p.family, Name: name}, p.set, p.Key)
		if err != nil || ok && ownerOf(e) != ownerText(m.ID) {
			return false, err
		}
	}
	return true, nil
}

// expect has the kernel refuse a batch unless the tables are complete for the rules: it deletes the rules of a chain that has none.
func (r *ruleset) expect(b *netfilter.Batch) {
	b.FlushChain(&netfilter.Table{Family: netfilter.INet, Name: name}, stamp+r.sum)
	for _, t := range []*table{forms().inet, forms().bridge} {
		b.AddTable(&t.Table) // one that is dormant wakes
		b.FlushChain(&t.Table, t.version)
	}
}

// Apply makes everything as the state has it, in one transaction: after a change of rules or levels, or a flush. Its caller keeps others from
// changing records and tables meanwhile.
func (Kernel) Apply(ctx context.Context, state Source) error {
	var h *host
	var before map[netfilter.Family]*listing
	err := change(ctx, "apply", func(s *netfilter.Socket, b *netfilter.Batch) error {
		b.Guard()
		found, err := listAll(s)
		if err != nil {
			return err
		}
		wanted, err := state()
		if err != nil {
			return err
		}
		ofBridges, err := bridgeMACs(wanted.Members)
		if err != nil {
			return err
		}
		before, h = found, compile(wanted, nil, ofBridges)
		for _, f := range families {
			switch {
			case h.tables != nil:
				between(h.tables[f], found[f]).bring(b)
			case found[f] != nil:
				b.DeleteTable(&netfilter.Table{Family: f, Name: name})
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return errors.Join(h.unroute(before), h.route())
}
