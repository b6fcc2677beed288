// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package filter

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/allocnet/allocnet/internal/netfilter"
)

// Lacks tells what is missing, by the IDs of attachments. A host that needs no tables has nothing looked at.
func (Kernel) Lacks(ctx context.Context, state State) (map[string][]string, error) {
	if !state.isNeeded() {
		return nil, nil // nothing is missing
	}
	s, err := netfilter.Dial(ctx)
	if err != nil {
		return nil, err
	}
	defer s.Close() //nolint:errcheck // read only
	found, err := listAll(s)
	if err != nil {
		return nil, err
	}
	ofBridges, err := bridgeMACs(state.Members)
	if err != nil {
		return nil, err
	}
	lacks, h := map[string][]string{}, compile(state, found[netfilter.INet], ofBridges)
	for _, f := range families {
		l := cmp.Or(found[f], &listing{})
		ofAll := h.tables[f].lacking(l)
		for id, all := range h.of {
			lacks[id] = append(lacks[id], ofAll...)
			for _, p := range all {
				if p.family == f && l.sets[p.set] != nil && l.lacksElement(p.set, p.Element) && l.lacksElement(p.set, withoutOwner(p.Element)) {
					lacks[id] = append(lacks[id], fmt.Sprintf("its element of set %s of table %s %s", p.set, f, name))
				}
			}
		}
	}
	if err := h.lackingProxies(lacks); err != nil {
		return nil, err
	}
	maps.DeleteFunc(lacks, func(_ string, all []string) bool { return len(all) == 0 })
	return lacks, nil
}

// withoutOwner is an element as it is while several have it.
func withoutOwner(e netfilter.Element) netfilter.Element {
	e.Comment = ""
	return e
}

// lacking tells what is missing of a table, but for the elements of attachments.
func (t *table) lacking(l *listing) (all []string) {
	if len(l.chains) == 0 {
		return []string{fmt.Sprintf("table %s %s", t.Family, t.Name)}
	}
	if l.dormant {
		all = append(all, fmt.Sprintf("table %s %s is dormant: it sees no packet", t.Family, t.Name))
	}
	for _, chain := range t.chainNames() {
		if l.lacksChain(t.chains[chain]) {
			all = append(all, fmt.Sprintf("chain %s of table %s %s", chain, t.Family, t.Name))
		}
	}
	for _, set := range slices.Sorted(maps.Keys(t.sets)) {
		isMissing := l.sets[set] == nil || set == kindsSet && l.lacksNote(notesIn(slices.Collect(maps.Values(l.sets[set]))))
		for _, e := range t.sets[set].elements {
			isMissing = isMissing || e.Comment == "" && l.lacksElement(set, e)
		}
		if isMissing {
			all = append(all, fmt.Sprintf("set %s of table %s %s", set, t.Family, t.Name))
		}
	}
	return all
}

// lackingProxies tells for which attachments the host does not answer on bridges with some that are apart.
func (h *host) lackingProxies(lacks map[string][]string) error {
	for bridgeName, isRoutedThere := range h.bridges {
		if !isRoutedThere {
			continue
		}
		has, err := answered(bridgeName)
		if err != nil {
			return err
		}
		isOn := isRouted(bridgeName)
		for i := range h.members {
			m := &h.members[i]
			if m.Bridge != bridgeName {
				continue
			}
			if !isOn {
				lacks[m.ID] = append(lacks[m.ID], "proxy_arp_pvlan of "+bridgeName)
			}
			for _, a := range m.Addresses {
				if a.Unmap().Is6() && has[a] == nil {
					lacks[m.ID] = append(lacks[m.ID], fmt.Sprintf("proxy of %s on %s", a, bridgeName))
				}
			}
		}
	}
	return nil
}
