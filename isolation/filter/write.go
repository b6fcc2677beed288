// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package filter

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/netfilter"
	"github.com/allocnet/allocnet/isolation"
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
			t.bring(b, nil)
		}
		b.AddTable(&t.Table) // one that is dormant wakes
		for _, set := range []string{guarded, forged} {
			b.AddElements(&t.Table, set, []netfilter.Element{{Key: netfilter.LinkKey(end), Comment: ownerText(id)}})
		}
		return nil
	})
}

// change has the kernel execute one batch in this network namespace.
func change(ctx context.Context, what string, fill func(*netfilter.Socket, *netfilter.Batch) error) error {
	s, err := netfilter.Dial(ctx)
	if err != nil {
		return err
	}
	defer s.Close() //nolint:errcheck // nothing is left to send
	if err := s.Change(func(b *netfilter.Batch) error { return fill(s, b) }); err != nil {
		return fmt.Errorf("isolation: %s: %w", what, err)
	}
	return nil
}

// Add adds the elements of an attachment, before its interface inside is up. It is safe to repeat. What rules need that is not there
// is made of the state, and so are the tables, if the state has anything that needs them.
func (f Kernel) Add(ctx context.Context, rules isolation.Rules, m Member, state Source) error {
	s, err := netfilter.Dial(ctx)
	if err != nil {
		return err
	}
	defer s.Close() //nolint:errcheck // nothing is left to send
	needed := State{rules, []Member{m}}
	if !needed.isNeeded() {
		if has, err := s.HasChain(&netfilter.Table{Family: netfilter.INet, Name: name}, "forward"); err != nil || !has {
			return err
		}
	}
	r := prepare(rules, false)
	all, isReady, err := r.ready(s, &m)
	if err != nil {
		return err
	}
	isNew := false
	if isReady {
		if isNew, err = isFirst(s, all); err != nil {
			return err
		}
	}
	switch {
	case isNew:
		err = addFirst(s, prepare(rules, true), &m, with(m, state))
	case isReady:
		err = s.Change(func(b *netfilter.Batch) error {
			r.expect(b)
			for _, p := range all {
				b.AddElements(&netfilter.Table{Family: p.family, Name: name}, p.set, []netfilter.Element{p.Element})
			}
			return nil
		})
	}
	if !isReady || isNew && err != nil || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EEXIST) { // what is there is not as it has to be, or another one's
		return f.Apply(ctx, with(m, state))
	}
	if err != nil {
		return fmt.Errorf("isolation: add %s: %w", m.ID, err)
	}
	if m.isApart(r.kindOf(&m.Member)) && !isRouted(m.Bridge) { // the last one of its bridge has gone meanwhile
		return f.Apply(ctx, with(m, state))
	}
	return answerFor(&m)
}

// ready returns the elements of an attachment, and whether they can be added: the tables are complete for the rules, and no other one has them.
func (r *ruleset) ready(s *netfilter.Socket, m *Member) (all []placed, isReady bool, err error) {
	k := r.kindOf(&m.Member)
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

// with is a state that has the attachment as it is now.
func with(m Member, state Source) Source {
	return func() (State, error) {
		s, err := state()
		s.Members = append(slices.DeleteFunc(slices.Clone(s.Members), func(other Member) bool { return other.ID == m.ID }), m)
		return s, err
	}
}

// Apply makes everything as the state has it, in one transaction: after a change of rules or levels, or a flush. The state is read
// after what is there, so an attachment that is added meanwhile stays.
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
				h.tables[f].bring(b, found[f])
			case found[f] != nil:
				b.DeleteTable(&netfilter.Table{Family: f, Name: name})
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return errors.Join(h.unroute(ctx, before), h.route())
}
