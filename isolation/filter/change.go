// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package filter

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/netfilter"
	"github.com/allocnet/allocnet/isolation"
)

// Change has a host that has tables know other attachments on other hosts than before: only their elements change, in one transaction. What else
// is missing is made of the state. The flows of those that are gone end: who gets their addresses would have them, too.
func (f Kernel) Change(ctx context.Context, rules isolation.Rules, before, now []Member, state Source) error {
	s, err := netfilter.Dial(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	if has, err := s.HasChain(&netfilter.Table{Family: netfilter.INet, Name: name}, "forward"); err != nil || !has {
		return err
	}
	r := prepare(rules, "", true)
	gone, made := differing(r.elementsOfAll(before), r.elementsOfAll(now))
	if len(gone)+len(made) > 0 {
		err = s.Change(func(b *netfilter.Batch) error {
			r.expect(b)
			eachSet(gone, b.DeleteElements)
			eachSet(made, b.AddElements)
			return nil
		})
	}
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EEXIST) { // the first of its kind, or others have changed the tables
		err = f.Apply(ctx, state)
	}
	if err != nil {
		return fmt.Errorf("isolation: attachments on other hosts: %w", err)
	}
	return s.ForgetFlows(Replaced(before, now))
}

func (r *ruleset) elementsOfAll(members []Member) (all []placed) {
	found := kinds{}
	for i := range members {
		m := &members[i]
		all = append(all, elementsOf(m, found.of(r, &m.Member), nil)...)
	}
	return all
}

// differing returns the elements that are in one list only. One that has changed is in both.
func differing(before, now []placed) (gone, made []placed) {
	stays := map[string]placed{}
	for _, p := range before {
		stays[p.set+" "+identity(p.Element)] = p
	}
	for _, p := range now {
		key := p.set + " " + identity(p.Element)
		if old, ok := stays[key]; ok && !differs(old.Element, p.Element) {
			delete(stays, key)
			continue
		}
		made = append(made, p)
	}
	for _, p := range before {
		key := p.set + " " + identity(p.Element)
		if _, ok := stays[key]; ok {
			gone = append(gone, p)
			delete(stays, key)
		}
	}
	return gone, made
}

// eachSet calls do for the elements of each set together.
func eachSet(all []placed, do func(*netfilter.Table, string, []netfilter.Element)) {
	bySet := map[string][]netfilter.Element{}
	var sets []placed
	for _, p := range all {
		if bySet[p.set] == nil {
			sets = append(sets, p)
		}
		bySet[p.set] = append(bySet[p.set], p.Element)
	}
	for _, p := range sets {
		do(&netfilter.Table{Family: p.family, Name: name}, p.set, bySet[p.set])
	}
}

// Replaced returns the addresses that no attachment has any more, or another one. One of which is not known any more whose it is has them still.
func Replaced(before, now []Member) (all []netip.Addr) {
	has := map[netip.Addr]*Member{}
	for i := range now {
		for _, a := range now[i].Addresses {
			has[a] = &now[i]
		}
	}
	for i := range before {
		old := &before[i]
		for _, a := range old.Addresses {
			m := has[a]
			if m == nil || m.Host != old.Host || m.Network != old.Network || m.Job != "" && (m.Namespace != old.Namespace || m.Job != old.Job || m.Group != old.Group) {
				all = append(all, a)
			}
		}
	}
	return all
}
