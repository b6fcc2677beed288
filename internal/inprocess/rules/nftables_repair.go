// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package rules

import (
	"fmt"

	"github.com/allocnet/allocnet/internal/netfilter"
)

func (m *missingRules) nftables() error {
	if !hasNFTables(m.all) {
		return nil
	}
	socket, err := netfilter.Dial(m.ctx)
	if err != nil {
		return err
	}
	defer socket.Close()
	lacking, err := m.lackingNFTables(socket.Listings())
	if err != nil {
		return err
	}
	var owners, changes []*Set
	for _, c := range m.all {
		if len(lacking[c]) > 0 && !c.Repair.DryRun {
			owners, changes = append(owners, c), append(changes, &Set{Changes: lacking[c]})
		}
	}
	errs := make([]error, len(changes))
	commitNFTables(socket, nil, changes, errs)
	for i, err := range errs {
		owners[i].Repair.Fail(err)
	}
	return nil
}

// lackingNFTables returns the rules of each chain of plugins that are to be replaced.
func (m *missingRules) lackingNFTables(listings *netfilter.Listings) (map[*Set][]Change, error) {
	lacking := map[*Set][]Change{}
	for _, c := range m.all {
		for _, r := range c.Changes {
			if r.NFTables == nil {
				continue
			}
			missing, err := r.NFTables.missing(listings)
			if err != nil {
				return nil, err
			}
			if len(missing) > 0 {
				m.lack(c, missing...)
				again := *r.NFTables
				again.Replace = true
				lacking[c] = append(lacking[c], Change{NFTables: &again})
			}
		}
	}
	return lacking, nil
}

// missing tells in words what is missing of the rules of an attachment, and of what all
// attachments share. Rules are counted: programs of other versions express them otherwise.
func (r *NFTables) missing(l *netfilter.Listings) ([]string, error) {
	var missing []string
	lack := func(chain string, count int) {
		if count > 0 {
			missing = append(missing, fmt.Sprintf("nftables: %s in chain %s of table %s %s", counted(count), chain, r.Table.Family, r.Table.Name))
		}
	}
	dormant, err := l.IsDormant(r.Table)
	if err != nil {
		return nil, err
	}
	if dormant {
		missing = append(missing, fmt.Sprintf("nftables: table %s %s is dormant, and its rules see no packet", r.Table.Family, r.Table.Name))
	}
	for _, chain := range r.Table.Chains {
		listed, err := l.Of(r.Table, chain.Name)
		if err != nil {
			return nil, err
		}
		lack(chain.Name, len(chain.Rules)-len(listed))
	}
	for _, chain := range r.Chains {
		_, count, err := r.Listed(l, chain)
		if err != nil {
			return nil, err
		}
		lack(chain, count)
	}
	return missing, nil
}

func counted(rules int) string {
	if rules == 1 {
		return "1 rule"
	}
	return fmt.Sprintf("%d rules", rules)
}
