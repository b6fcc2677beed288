// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"fmt"

	"github.com/allocnet/allocnet/internal/netfilter"
)

// nftables adds what is missing of nftables.
func (m *missingRules) nftables() error {
	if !hasNFTables(m.all) {
		return nil
	}
	socket, err := netfilter.Dial(m.ctx)
	if err != nil {
		return err
	}
	defer socket.Close() //nolint:errcheck // nothing is left to send
	lacking, err := m.lackingNFTables(socket.Listings())
	if err != nil {
		return err
	}
	var owners []*ruleSet
	var changes []*ruleSet
	for _, c := range m.all {
		if len(lacking[c]) > 0 && !c.repair.DryRun {
			owners, changes = append(owners, c), append(changes, &ruleSet{rules: lacking[c]})
		}
	}
	if len(changes) == 0 || commitBatch(socket, changes) == nil {
		return nil
	}
	for i, c := range changes {
		owners[i].repair.Fail(commitBatch(socket, []*ruleSet{c}))
	}
	return nil
}

// lackingNFTables returns the rules of each chain of plugins that are to be replaced.
func (m *missingRules) lackingNFTables(listings *netfilter.Listings) (map[*ruleSet][]rules, error) {
	lacking := map[*ruleSet][]rules{}
	for _, c := range m.all {
		for _, r := range c.rules {
			if r.nftables == nil {
				continue
			}
			missing, err := r.nftables.missing(listings)
			if err != nil {
				return nil, err
			}
			if len(missing) > 0 {
				m.lack(c, missing...)
				again := *r.nftables
				again.replace = true
				lacking[c] = append(lacking[c], rules{nftables: &again})
			}
		}
	}
	return lacking, nil
}

// missing tells in words what is missing of the rules of an attachment, and of what all
// attachments share. Rules are counted: programs of other versions express them otherwise.
func (r *nftablesRules) missing(l *netfilter.Listings) ([]string, error) {
	var missing []string
	lack := func(chain string, count int) {
		if count > 0 {
			missing = append(missing, fmt.Sprintf("nftables: %s in chain %s of table %s %s", counted(count), chain, r.table.Family, r.table.Name))
		}
	}
	for _, chain := range r.table.Chains {
		listed, err := l.Of(r.table, chain.Name)
		if err != nil {
			return nil, err
		}
		lack(chain.Name, len(chain.Rules)-len(listed))
	}
	for _, chain := range r.chains {
		_, count, err := r.listed(l, chain)
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
