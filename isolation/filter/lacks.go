// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package filter

import (
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
	defer s.Close()
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
		d := between(h.tables[f], found[f])
		ofAll := d.lacking()
		for id, all := range h.of {
			lacks[id] = append(lacks[id], ofAll...)
			for _, p := range all {
				if p.family == f && d.listing.sets[p.set] != nil && d.lacksElement(p.set, p.Element) && d.lacksElement(p.set, withoutOwner(p.Element)) {
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
func (d difference) lacking() (all []string) {
	if len(d.listing.chains) == 0 {
		return []string{fmt.Sprintf("table %s %s", d.Family, d.Name)}
	}
	if d.dormant {
		all = append(all, fmt.Sprintf("table %s %s is dormant: it sees no packet", d.Family, d.Name))
	}
	for _, chain := range d.chainNames() {
		if d.lacksChain(d.table.chains[chain]) {
			all = append(all, fmt.Sprintf("chain %s of table %s %s", chain, d.Family, d.Name))
		}
	}
	for _, set := range slices.Sorted(maps.Keys(d.table.sets)) {
		isMissing := d.listing.sets[set] == nil || set == kindsSet && d.lacksNote(notesIn(slices.Collect(maps.Values(d.listing.sets[set]))))
		for _, e := range d.table.sets[set].elements {
			isMissing = isMissing || e.Comment == "" && d.lacksElement(set, e)
		}
		if isMissing {
			all = append(all, fmt.Sprintf("set %s of table %s %s", set, d.Family, d.Name))
		}
	}
	return all
}

// lackingElements tells of which sets that are there elements of attachments are missing.
func (d difference) lackingElements() (all []string) {
	for _, set := range slices.Sorted(maps.Keys(d.table.sets)) {
		for _, e := range d.table.sets[set].elements {
			if d.listing.sets[set] != nil && e.Comment != "" && d.lacksElement(set, e) {
				all = append(all, fmt.Sprintf("elements of set %s of table %s %s in its namespace", set, d.Family, d.Name))
				break
			}
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
