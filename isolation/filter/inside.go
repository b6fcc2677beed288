// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package filter

import (
	"context"
	"maps"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"

	"github.com/allocnet/allocnet/internal/netfilter"
	"github.com/allocnet/allocnet/isolation"
)

// Namespace is a network namespace.
type Namespace interface {
	// Do runs f in it.
	Do(f func() error) error
}

// Inside is all that the network namespace of an allocation has to have.
type Inside struct {
	Rules isolation.Rules
	// Own are the attachments that are kept apart there; End is the name of the interface. Nothing passes by that of one without a MAC.
	Own []Member
	// Others are all other attachments that are known, of this host and others.
	Others []Member
	// Ended are addresses whose flows end.
	Ended []netip.Addr
}

// insideTables are those of a namespace: of what comes by the interfaces of attachments, and of what goes. In each, one interface is a part of the keys of both ends of
// a flow.
var insideTables = []netfilter.Table{{Family: netfilter.INet, Name: name}, {Family: netfilter.INet, Name: name + "-out"}}

// Names of further sets of these: interfaces by which nothing passes yet, the addresses of attachments, and what decides about packets to other
// addresses, by the interface that they come by.
const (
	closed        = "closed"
	here          = "here"
	narrowedLinks = narrowedTo + "-links"
	levelLinks    = level + "-links"
)

// inward makes the table of what comes, without rules and attachments.
func inward() *table {
	t := newTable(netfilter.INet, "what reaches this allocation, by allocnet")
	t.isInside, t.out = true, t.in
	t.attachmentSets([]string{members, isolated, here}, []string{narrowedTo, allow, egress, level})
	for _, name := range []string{links, isolatedLinks, closed} {
		t.set(netfilter.KeySet{Name: name, Key: linkSet})
	}
	for _, name := range []string{narrowedLinks, levelLinks} {
		t.set(netfilter.KeySet{Name: name, Key: linkSet, IsMap: true})
	}
	d := t.decisions()
	queries := slices.Concat(ip6.is(), types6(listenerQuery, listenerQuery))
	elsewhere := bothIPs("to another address", func(v *ip) match {
		return slices.Concat(netfilter.KeyIn(here+v.suffix, false, t.in, v.destination()), goTo("elsewhere"))
	})
	t.base("prerouting", nftables.ChainHookPrerouting, before, slices.Concat(
		[]netfilter.Rule{rule("other interfaces", netfilter.KeyIn(links, false, t.in), accept), d.discovery, rule("queries for listeners", queries, accept),
			rule("nothing passes yet", netfilter.KeyIn(closed, true, t.in), drop), d.tracks},
		t.withOptions(t.in), elsewhere, d.isNarrowedTo, d.isAllowed, d.isEgress, d.levels,
	)...)
	t.chain("elsewhere", "to all of the link, or to an address of another interface", slices.Concat(
		[]netfilter.Rule{rule("0: narrowed ingress", netfilter.KeyVerdict(narrowedLinks, t.in))}, d.isAllowedToAddress, d.isEgress,
		[]netfilter.Rule{rule("5 to 7: level", netfilter.KeyVerdict(levelLinks, t.in))},
	)...)
	t.levelChains()
	return t.seal()
}

// outward makes the table of what goes. What finds neighbours is left to the kernel of the allocation.
func outward() *table {
	t := newTable(netfilter.INet, "what this allocation sends, by allocnet")
	t.Name = insideTables[1].Name
	t.isInside, t.in = true, t.out
	t.attachmentSets([]string{members, isolated, own}, []string{narrowedFrom, allow, egress, level})
	for _, name := range []string{links, isolatedLinks, closed, guarded} {
		t.set(netfilter.KeySet{Name: name, Key: linkSet})
	}
	d := t.decisions()
	listens := func(first, last byte) netfilter.Rule {
		return rule("what it listens to", ip6.is(), types6(first, last), accept)
	}
	spoken := []netfilter.Rule{d.discovery, listens(listenerReport, listenerDone), listens(listenerReport2, listenerReport2)}
	t.base("guarded", nftables.ChainHookPostrouting, early, append(slices.Clone(spoken), t.guardIPs("what else an attachment may send")...)...)
	t.base("postrouting", nftables.ChainHookPostrouting, before, slices.Concat(
		[]netfilter.Rule{rule("other interfaces", netfilter.KeyIn(links, false, t.out), accept)}, spoken,
		[]netfilter.Rule{rule("nothing passes yet", netfilter.KeyIn(closed, true, t.out), drop), d.tracks},
		t.withOptions(t.out), d.isNarrowed, d.isAllowed, d.isEgress, d.levels,
	)...)
	t.levelChains()
	return t.seal()
}

// compileInside makes the tables of a namespace; nil: none.
func compileInside(s Inside) []*table {
	if len(s.Own) == 0 {
		return nil
	}
	r, tables := prepare(s.Rules, "", true), []*table{inward(), outward()}
	open := slices.DeleteFunc(slices.Clone(s.Own), isClosed)
	for i := range open {
		open[i].Link = open[i].End
	}
	all := slices.Clone(open)
	for _, o := range open {
		for _, other := range s.Others {
			all = append(all, other.behind(o.End))
		}
	}
	for _, t := range tables {
		found := t.form(r, all)
		for i := range all {
			t.putAll(elementsOf(&all[i], found.of(r, &all[i].Member), nil))
		}
		for i := range s.Own {
			t.putAll(s.Own[i].elementsInside())
		}
	}
	return tables
}

// putAll adds those elements whose sets a table has.
func (t *table) putAll(all []placed) {
	for _, p := range all {
		if t.sets[p.set] != nil {
			t.put(p.set, p.Element)
		}
	}
}

// isClosed tells whether nothing passes by the interface of an attachment.
func isClosed(m Member) bool { return len(m.MAC) == 0 }

// behind is an attachment as the namespace of another one knows it, by whose interface its packets come.
func (m Member) behind(link string) Member {
	id := m.ID
	if !isolation.IsRemote(id) {
		id = isolation.RemoteID(id)
	}
	m.ID, m.Link, m.NoHost, m.Ingress, m.Egress = id, "", false, nil, nil
	return Member{Member: m.Member, Via: link}
}

// elementsInside are those of an attachment that only its namespace has.
func (m Member) elementsInside() []placed {
	e := &elements{Member: &m}
	link := netfilter.LinkKey(m.End)
	e.add(netfilter.INet, links, netfilter.Element{}, link)
	if isClosed(m) {
		e.add(netfilter.INet, closed, netfilter.Element{}, link)
		return e.all
	}
	for _, a := range m.Addresses {
		e.add(netfilter.INet, here+suffixOf(a.Unmap()), netfilter.Element{}, link, a.Unmap().AsSlice())
	}
	if m.Ingress != nil {
		e.add(netfilter.INet, narrowedLinks, netfilter.Element{Verdict: expr.VerdictJump, Chain: narrowClass(narrowedTo, m.Ingress)}, link)
	}
	e.add(netfilter.INet, levelLinks, verdictFor(&m.Member), link)
	return e.all
}

// briefly connects to nftables of a namespace.
func briefly(ctx context.Context, ns Namespace, do func(*netfilter.Socket) error) error {
	return ns.Do(func() error { return netfilter.Briefly(ctx, do) })
}

// ApplyInside makes everything as a namespace has to have it, and of each table all at once. It is safe to repeat.
func (Kernel) ApplyInside(ctx context.Context, ns Namespace, s Inside) error {
	return briefly(ctx, ns, func(socket *netfilter.Socket) error {
		return changeBy(socket, "apply inside", func(b *netfilter.Batch) error {
			b.Guard()
			wanted := compileInside(s)
			for i := range insideTables {
				l, err := list(socket, &insideTables[i])
				if err != nil {
					return err
				}
				switch {
				case wanted != nil:
					between(wanted[i], l).bring(b)
				case l != nil:
					b.DeleteTable(&insideTables[i])
				}
			}
			return nil
		}, s.Ended...)
	})
}

// RemoveInside removes what a namespace has of an attachment, its own or another one, while others are added and removed, and the tables after the last own
// one. Of it only the ID has to be known. What is missing is no error.
func (Kernel) RemoveInside(ctx context.Context, ns Namespace, gone Member) error {
	return briefly(ctx, ns, func(s *netfilter.Socket) error {
		return changeBy(s, "remove "+gone.ID, func(b *netfilter.Batch) error {
			b.Guard()
			for i := range insideTables {
				l, err := list(s, &insideTables[i])
				if err != nil {
					return err
				}
				if l != nil {
					l.remove(b, &insideTables[i], gone)
				}
			}
			return nil
		}, gone.Addresses...)
	})
}

// remove removes the elements of an attachment from a table of a namespace, or the table if no other attachment needs it.
func (l *listing) remove(b *netfilter.Batch, t *netfilter.Table, gone Member) {
	owners := []string{ownerText(gone.ID), ownerText(gone.behind("").ID)}
	isOther := func(e netfilter.Element) bool { return !slices.Contains(owners, ownerOf(e)) }
	if slices.ContainsFunc(slices.Collect(maps.Values(l.sets[links])), isOther) {
		l.removeOwned(b, t, owners...)
	} else {
		b.DeleteTable(t)
	}
}

// LacksInside tells what is missing in a namespace, by the IDs of its attachments.
func (Kernel) LacksInside(ctx context.Context, ns Namespace, s Inside) (map[string][]string, error) {
	var all []string
	err := briefly(ctx, ns, func(socket *netfilter.Socket) error {
		for i, t := range compileInside(s) {
			l, err := list(socket, &insideTables[i])
			if err != nil {
				return err
			}
			d := between(t, l)
			if all = append(all, d.lacking()...); len(d.listing.chains) > 0 {
				all = append(all, d.lackingElements()...)
			}
		}
		return nil
	})
	lacks := map[string][]string{}
	if len(all) > 0 {
		for _, m := range s.Own {
			lacks[m.ID] = all
		}
	}
	return lacks, err
}

// DeniedInside returns what was dropped of the attachments of a namespace, as Denied does.
func (Kernel) DeniedInside(ctx context.Context, ns Namespace) (found map[string]isolation.Denied, err error) {
	err = briefly(ctx, ns, func(s *netfilter.Socket) (err error) {
		found, err = deniedIn(s, insideTables)
		return err
	})
	return found, err
}
