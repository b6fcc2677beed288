// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package filter

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/netfilter"
	"github.com/allocnet/allocnet/isolation"
)

// onBridge is between the ID of an attachment that is apart and its bridge.
const onBridge = " on "

// ownerOf returns the ID of the attachment that has an element, as long as comments are; empty: none.
func ownerOf(e netfilter.Element) string {
	id, _, _ := strings.Cut(e.Comment, onBridge)
	return id
}

// bridges returns those with attachments that are apart.
func (l *listing) bridges() (names []string) {
	if l == nil {
		return nil
	}
	for _, e := range l.sets[apart] {
		if _, bridgeName, ok := strings.Cut(e.Comment, onBridge); ok && !slices.Contains(names, bridgeName) {
			names = append(names, bridgeName)
		}
	}
	return names
}

// Remove removes what Guard and Add have put in for an attachment, and the tables after the last one, and ends its flows: who gets its addresses
// would have them, too. Of the attachment only the ID has to be known; what is missing is no error, and what another attachment has stays, if
// it has the same address by now.
func (Kernel) Remove(ctx context.Context, rules Rules, m Member) error {
	s, err := netfilter.Dial(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	hasTables := false
	for _, f := range families {
		tables, err := s.Tables(f)
		if err != nil {
			return err
		}
		hasTables = hasTables || slices.Contains(tables, name)
	}
	if !hasTables {
		return nil
	}
	wasApart, err := stopAnswering(s, &m) // before it is unknown which bridges the host answers on
	if err != nil {
		return err
	}
	r, err := rules.about(&m)
	if err != nil {
		return err
	}
	if err = removeKnown(s, r, &m); errors.Is(err, unix.ENOENT) {
		err = removeFound(s, m.ID)
	}
	if err == nil && wasApart { // the others that were apart may have gone meanwhile
		err = unrouteUnused(s, &m)
	}
	if err == nil {
		err = forgetFlows(s, &m)
	}
	if err == nil {
		err = removeUnused(s, rules.Egress > 0)
	}
	if err != nil {
		return fmt.Errorf("isolation: remove %s: %w", m.ID, err)
	}
	return nil
}

// removeKnown removes the elements that the attachment has if it was added with these rules, else the error is ENOENT.
func removeKnown(s *netfilter.Socket, r *ruleset, m *Member) error {
	gateway, err := gatewayOf(s, m)
	if err != nil {
		return err
	}
	all := elementsOf(m, r.kindOf(&m.Member), gateway)
	if len(all) == 0 {
		return unix.ENOENT
	}
	for _, p := range all {
		if p.shared || !strings.HasPrefix(p.set, members) && p.set != guarded && !slices.Contains(commonSets, p.set) {
			continue
		}
		e, ok, err := s.Element(&netfilter.Table{Family: p.family, Name: name}, p.set, p.Key)
		if err != nil {
			return err
		}
		if !ok || ownerOf(e) != ownerText(m.ID) {
			return unix.ENOENT
		}
	}
	return s.Change(func(b *netfilter.Batch) error {
		r.expect(b)
		for _, p := range all {
			if !p.shared {
				b.DeleteElements(&netfilter.Table{Family: p.family, Name: name}, p.set, []netfilter.Element{p.Element})
			}
		}
		return nil
	})
}

// removeFound removes all elements of an attachment that there are.
func removeFound(s *netfilter.Socket, id string) error {
	return s.Change(func(b *netfilter.Batch) error {
		b.Guard()
		for i := range hostTables {
			l, err := list(s, &hostTables[i])
			if err != nil {
				return err
			}
			if l != nil && id != "" {
				l.removeOwned(b, &hostTables[i], ownerText(id))
			}
		}
		return nil
	})
}

// removeOwned removes the elements that attachments have in a table. Notes are of none, whatever they read as.
func (l *listing) removeOwned(b *netfilter.Batch, t *netfilter.Table, owners ...string) {
	for _, set := range slices.Sorted(maps.Keys(l.sets)) {
		if set == kindsSet {
			continue
		}
		var gone []netfilter.Element
		for _, e := range l.sets[set] {
			if slices.Contains(owners, ownerOf(e)) {
				gone = append(gone, e)
			}
		}
		b.DeleteElements(t, set, gone)
	}
}

// forgetFlows ends the flows of an attachment: packets of established ones pass.
func forgetFlows(s *netfilter.Socket, m *Member) error {
	var own []netip.Addr
	for _, a := range m.Addresses {
		isOfOther, err := isOfOther(s, m, a)
		if err != nil {
			return err
		}
		if !isOfOther {
			own = append(own, a.Unmap())
		}
	}
	return s.ForgetFlows(own)
}

// isOfOther tells whether another attachment has an address by now.
func isOfOther(s *netfilter.Socket, m *Member, a netip.Addr) (bool, error) {
	key := netfilter.Key(netfilter.LinkKey(m.Link), a.Unmap().AsSlice())
	e, ok, err := s.Element(&netfilter.Table{Family: netfilter.INet, Name: name}, members+suffixOf(a.Unmap()), key)
	return ok && ownerOf(e) != ownerText(m.ID), err
}

// removeUnused removes the tables if no attachment needs them.
func removeUnused(s *netfilter.Socket, hasEgress bool) error {
	sets := []string{guarded, apart}
	for _, v := range ips {
		sets = append(sets, isolated+v.suffix, narrowedFrom+v.suffix, narrowedTo+v.suffix)
	}
	if hasEgress {
		sets = append(sets, members+ip4.suffix, members+ip6.suffix)
	}
	err := s.Change(func(b *netfilter.Batch) error {
		b.GuardAlways()
		for _, f := range families {
			for _, set := range sets {
				found, err := s.Elements(&netfilter.Table{Family: f, Name: name}, set)
				if err != nil || slices.ContainsFunc(found, isLocal) {
					return err
				}
			}
		}
		for _, f := range families {
			tables, err := s.Tables(f)
			if err != nil {
				return err
			}
			if slices.Contains(tables, name) {
				b.DeleteTable(&netfilter.Table{Family: f, Name: name})
			}
		}
		return nil
	})
	if errors.Is(err, unix.ERESTART) { // it changes all the time: another attachment may need them, and the next one that goes looks again
		return nil
	}
	return err
}

// isLocal tells whether an element is of an attachment of this host.
func isLocal(e netfilter.Element) bool { return !isolation.IsRemote(ownerOf(e)) }

// Owners returns the IDs of the attachments that have something in the tables.
func Owners(ctx context.Context) (ids []string, err error) {
	s, err := netfilter.Dial(ctx)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	for _, f := range families {
		for _, set := range []string{guarded, apart, members + ip4.suffix, members + ip6.suffix} {
			found, err := s.Elements(&netfilter.Table{Family: f, Name: name}, set)
			if err != nil {
				return nil, err
			}
			for _, e := range found {
				if isLocal(e) {
					ids = append(ids, ownerOf(e))
				}
			}
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}
