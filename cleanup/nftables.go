// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"context"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/allocnet/allocnet/internal/netfilter"
)

type nftTable struct {
	family netfilter.Family
	name   string
	// chains have rules of all allocations.
	chains []string
	// own are those that are made for one attachment. The rules that lead to them
	// are in chains. Zero: there are none.
	own ownChains
	// comment is that of the rules, with the groups key, network, id and
	// interface as far as the plugin writes them.
	comment *regexp.Regexp
	// key is what the plugin derives from the owner for the group key. It proves
	// the other groups. Nil: the comment has no key.
	key func(Owner) string
}

type ownChains struct {
	// prefix begins their names, and those of no others.
	prefix string
	names  []func(Owner) string
}

func (c ownChains) of(owner Owner) (names []string) {
	for _, name := range c.names {
		names = append(names, name(owner))
	}
	return names
}

type nftRule struct {
	chain, comment string
	// handle is not used again, unless the table is made anew.
	handle uint64
	// addresses can be the allocation's: the source of what is masqueraded, the destination of what is forwarded.
	addresses []netip.Addr
}

// nftObject is a rule in one of the tables, or a whole chain.
type nftObject struct {
	table nftTable
	nftRule
	// whole is whether it is the chain alone.
	whole bool
}

func (t nftTable) String() string { return fmt.Sprintf("nft %s %s", t.family, t.name) }

func (t nftTable) scan(ctx context.Context, h *host, kind Kind) (found scanResult, err error) {
	rules, chains, err := h.programs.listNFTables(ctx, t)
	for _, r := range rules {
		if t.comment.MatchString(r.comment) {
			found.Objects = append(found.Objects, t.object(kind, r))
		}
	}
	for _, name := range chains {
		if t.own.prefix != "" && strings.HasPrefix(name, t.own.prefix) {
			found.Objects = append(found.Objects, Object{Kind: kind, key: name, Where: fmt.Sprintf("%s %s", t, name), nft: &nftObject{t, nftRule{chain: name}, true}})
		}
	}
	return found, err
}

// listNFTables returns the rules of the table's chains of all allocations, and all chains if there are some of one attachment.
func (system) listNFTables(ctx context.Context, t nftTable) (rules []nftRule, chains []string, err error) {
	socket, err := netfilter.Dial(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer socket.Close()
	table := &netfilter.Table{Family: t.family, Name: t.name}
	for _, chain := range t.chains {
		listed, err := socket.List(table, chain)
		if err != nil {
			return nil, nil, err
		}
		for _, r := range listed {
			rules = append(rules, nftRule{chain, r.Comment(), r.Handle, r.Addresses()})
		}
	}
	if t.own.prefix != "" {
		chains, err = socket.Chains(table)
	}
	return rules, chains, err
}

// object has the owner that the comment names. Where the key does not say the
// same, because the plugin truncated a long comment, it has only the key.
func (t nftTable) object(kind Kind, r nftRule) Object {
	o := Object{
		Kind: kind, Where: fmt.Sprintf("%s %s handle %d", t, r.chain, r.handle), Addresses: r.addresses,
		nft: &nftObject{t, r, false},
	}
	owner, key, ok := parseOwner(t.comment, r.comment)
	if ok && (t.key == nil || t.key(owner) == key) {
		o.Owner = owner
	}
	o.key = key
	return o
}

// remove removes rules, then chains, in one transaction. Where that fails,
// each is removed by itself.
func (t nftTable) remove(ctx context.Context, programs programs, objects []Object) []error {
	slices.SortStableFunc(objects, rulesFirst)
	errs := make([]error, len(objects))
	if programs.removeNFTables(ctx, t, objects) == nil {
		return errs
	}
	for i := range objects {
		errs[i] = programs.removeNFTables(ctx, t, objects[i:i+1])
	}
	return errs
}

// rulesFirst orders rules before chains: a chain is in use while a rule leads to it.
func rulesFirst(a, b Object) int {
	switch {
	case a.nft.whole == b.nft.whole:
		return 0
	case b.nft.whole:
		return -1
	}
	return 1
}

// removeNFTables removes what is still there of objects of a table, all or nothing.
func (system) removeNFTables(ctx context.Context, t nftTable, objects []Object) error {
	socket, err := netfilter.Dial(ctx)
	if err != nil {
		return err
	}
	defer socket.Close()
	table := &netfilter.Table{Family: t.family, Name: t.name}
	return socket.Change(func(b *netfilter.Batch) error {
		removed := map[uint64]bool{}
		for _, o := range objects {
			if err := o.nft.remove(b, table, removed); err != nil {
				return err
			}
		}
		return nil
	})
}

// remove removes the object if it is there, and is told the handles that are removed already. If all rules were loaded anew since
// the scan, its handle is that of another rule: then it is one with its comment and addresses.
func (o *nftObject) remove(b *netfilter.Batch, table *netfilter.Table, removed map[uint64]bool) error {
	if o.whole {
		exists, err := b.HasChain(table, o.chain)
		if exists {
			b.FlushChain(table, o.chain)
			b.DeleteChain(table, o.chain)
		}
		return err
	}
	rules, err := b.Of(table, o.chain)
	isSame := func(r netfilter.ListedRule) bool {
		return !removed[r.Handle] && r.Comment() == o.comment && slices.Equal(r.Addresses(), o.addresses)
	}
	at := slices.IndexFunc(rules, func(r netfilter.ListedRule) bool { return r.Handle == o.handle && isSame(r) })
	if at < 0 {
		at = slices.IndexFunc(rules, isSame)
	}
	if at >= 0 {
		removed[rules[at].Handle] = true
		b.DeleteRule(table, o.chain, rules[at])
	}
	return err
}
