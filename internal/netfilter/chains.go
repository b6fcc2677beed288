// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netfilter

import (
	"context"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// FilledChains returns the names of the chains of nftables that have rules, in all tables of a family, once
// for each rule. A kernel without nftables has none.
func FilledChains(ctx context.Context, family Family) (chains []string, err error) {
	s, err := Dial(ctx)
	if err != nil {
		return nil, ignoreUnsupported(err)
	}
	defer s.Close()
	err = s.dump(unix.NFT_MSG_GETRULE, family, func(payload []byte) {
		chains = append(chains, stringOf(payload, unix.NFTA_RULE_CHAIN))
	})
	return chains, err
}

// Chains returns the names of the chains of a table; none if there is no such table.
func (s *Socket) Chains(t *Table) (chains []string, err error) {
	err = s.dump(unix.NFT_MSG_GETCHAIN, t.Family, func(payload []byte) {
		if stringOf(payload, unix.NFTA_CHAIN_TABLE) == t.Name {
			chains = append(chains, stringOf(payload, unix.NFTA_CHAIN_NAME))
		}
	})
	return chains, err
}

// Tables returns the names of the tables of a family.
func (s *Socket) Tables(family Family) (tables []string, err error) {
	err = s.dump(unix.NFT_MSG_GETTABLE, family, func(payload []byte) {
		tables = append(tables, stringOf(payload, unix.NFTA_TABLE_NAME))
	})
	return tables, err
}

func (s *Socket) dump(kind int, family Family, visitor func(payload []byte)) error {
	return s.dumpOf(kind, family, nil, visitor)
}

// dumpOf lists what has the attributes.
func (s *Socket) dumpOf(kind int, family Family, attrs []netlink.Attribute, visitor func(payload []byte)) error {
	data, err := netlink.MarshalAttributes(attrs)
	if err != nil {
		return err
	}
	var payloads [][]byte
	err = whole(func() error {
		payloads = nil
		return s.receive(message(kind, netlink.Dump, family, data), func(payload []byte) bool {
			payloads = append(payloads, payload[min(nfgenmsgSize, len(payload)):])
			return true
		})
	})
	if err != nil {
		return err
	}
	for _, payload := range payloads {
		visitor(payload)
	}
	return nil
}

// RulesOf returns the rules of all chains of a table, by the chain.
func (s *Socket) RulesOf(t *Table) (rules map[string][]ListedRule, err error) {
	rules = map[string][]ListedRule{}
	err = s.dumpOf(unix.NFT_MSG_GETRULE, t.Family, []netlink.Attribute{text(unix.NFTA_RULE_TABLE, t.Name)}, func(payload []byte) {
		chain := stringOf(payload, unix.NFTA_RULE_CHAIN)
		rules[chain] = append(rules[chain], newListedRule(append(make([]byte, nfgenmsgSize), payload...)))
	})
	return rules, err
}
