// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package filter

import (
	"maps"
	"net"
	"slices"

	"github.com/allocnet/allocnet/internal/netfilter"
	"github.com/allocnet/allocnet/isolation"
)

// host is what a host has to have for a state; nil tables: none.
type host struct {
	tables map[netfilter.Family]*table
	// of are the elements of attachments, by ID, and members those that have some.
	of      map[string][]placed
	members []Member
	// bridges are those with attachments that are apart.
	bridges map[string]bool
}

// families are those of the tables.
var families = []netfilter.Family{netfilter.INet, netfilter.Bridge}

// hostTables are these.
var hostTables = []netfilter.Table{{Family: netfilter.INet, Name: name}, {Family: netfilter.Bridge, Name: name}}

// isNeeded is whether anything of the state needs tables. Rules allow by themselves let through what nothing denies, and attachments on
// other hosts are kept apart there.
func (s *State) isNeeded() bool {
	return slices.ContainsFunc(s.Members, func(m Member) bool { return m.needsTables(len(s.Rules.Egress) > 0) })
}

func (m *Member) needsTables(hasEgress bool) bool {
	return !m.isRemote() && (m.isIsolated() || m.Antispoof || m.IsNarrowed() || hasEgress)
}

// compile makes all of a state. Of sets of selectors it has those of attachments, and others that are there: chains have lines for those, too.
// ofBridges are the MACs of bridges.
func compile(s State, there *listing, ofBridges map[string]net.HardwareAddr) *host {
	h := &host{of: map[string][]placed{}, bridges: map[string]bool{}}
	if !s.isNeeded() {
		return h
	}
	r := prepare(s.Rules, "", true)
	in := inet()
	h.tables, h.members = map[netfilter.Family]*table{netfilter.INet: in, netfilter.Bridge: bridge()}, s.Members
	if there != nil {
		in.setsOf(there.selectorSets())
	}
	found := in.form(r, s.Members)
	for i := range s.Members {
		m := &s.Members[i]
		k := found.of(r, &m.Member)
		h.bridges[m.Bridge] = h.bridges[m.Bridge] || m.isApart(k)
		h.of[m.ID] = append(h.of[m.ID], elementsOf(m, k, ofBridges[m.Bridge])...)
	}
	for i := range s.Members {
		for _, p := range h.of[s.Members[i].ID] {
			h.tables[p.family].put(p.set, p.Element)
		}
	}
	return h
}

// form makes the sets and the chains for rules and attachments, without their elements, and returns the kinds of these.
func (t *table) form(r *ruleset, members []Member) kinds {
	found := r.kindsOf(members)
	for i := range members {
		m := &members[i]
		if m.Level == isolation.Network {
			t.networkChain(m.Network)
		}
		t.narrowChain(narrowedFrom, m.Egress, ofDestination)
		t.narrowChain(narrowedTo, m.Ingress, ofSource)
	}
	for _, k := range found {
		t.setsOf(k.sets)
	}
	for _, key := range slices.Sorted(maps.Keys(found)) { // all sets of selectors are there
		k := found[key]
		if k.allow.chain != "" {
			t.allowChain(r, k.allow)
			t.note(k.allow, k.names)
		}
		if k.egress.chain != "" {
			t.egressChain(r, k.egress)
			t.note(k.egress, k.names)
		}
	}
	t.reachedChain(r)
	t.chain(stamp+r.sum, "complete for rules")
	return found
}

// stamp is the beginning of the name of an empty chain that tells for which rules the tables are complete.
const stamp = "rules-"

// setsOf makes the sets of the selectors that select attachments.
func (t *table) setsOf(sets []string) {
	for _, set := range sets {
		for _, v := range ips {
			t.set(netfilter.KeySet{Name: set + v.suffix, Key: []netfilter.KeyType{netfilter.LinkName, v.address}})
		}
	}
}
