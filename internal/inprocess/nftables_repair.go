// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"fmt"

	"github.com/google/nftables"
)

// nftables adds what is missing of nftables.
func (m *missingRules) nftables() error {
	if !hasNFTables(m.all) {
		return nil
	}
	socket, err := dialNFTables(m.ctx)
	if err != nil {
		return err
	}
	defer socket.Close() //nolint:errcheck // nothing is left to send
	lacking, err := m.lackingNFTables(socket.listings())
	if err != nil {
		return err
	}
	var owners []*Changes
	var changes []*Changes
	for _, c := range m.all {
		if len(lacking[c]) > 0 && !c.repair.DryRun {
			owners, changes = append(owners, c), append(changes, &Changes{rules: lacking[c]})
		}
	}
	if len(changes) == 0 || socket.commit(changes) == nil {
		return nil
	}
	for i, c := range changes {
		owners[i].repair.fail(socket.commit([]*Changes{c}))
	}
	return nil
}

// lackingNFTables returns the rules of each chain of plugins that are to be replaced.
func (m *missingRules) lackingNFTables(listings *nftablesListings) (map[*Changes][]rules, error) {
	lacking := map[*Changes][]rules{}
	for _, c := range m.all {
		for _, r := range c.rules {
			if r.nftables == nil {
				continue
			}
			missing, err := listings.missing(r.nftables)
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
func (l *nftablesListings) missing(r *nftablesRules) ([]string, error) {
	var missing []string
	lack := func(chain string, count int) {
		if count > 0 {
			missing = append(missing, fmt.Sprintf("nftables: %s in chain %s of table %s %s", counted(count), chain, r.table.familyName(), r.table.name))
		}
	}
	for _, chain := range r.table.chains {
		listed, err := l.of(r.table, chain.name)
		if err != nil {
			return nil, err
		}
		lack(chain.name, len(chain.rules)-len(listed))
	}
	wanted := map[string]int{}
	for _, rule := range r.rules {
		wanted[rule.chain]++
	}
	for _, chain := range r.chains {
		listed, err := l.of(r.table, chain)
		if err != nil {
			return nil, err
		}
		for _, rule := range listed {
			if r.owns(rule.comment()) {
				wanted[chain]--
			}
		}
		lack(chain, wanted[chain])
	}
	return missing, nil
}

func counted(rules int) string {
	if rules == 1 {
		return "1 rule"
	}
	return fmt.Sprintf("%d rules", rules)
}

// familyName is what nft calls the family of the table.
func (t *nftablesTable) familyName() string {
	switch t.family {
	case nftables.TableFamilyINet:
		return "inet"
	case nftables.TableFamilyIPv6:
		return "ip6"
	}
	return "ip"
}
