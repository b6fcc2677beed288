// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"slices"

	"sigs.k8s.io/knftables"
)

// nftTable is a table that a plugin makes in nftables.
type nftTable struct {
	family knftables.Family
	name   string
	// chains have rules of all allocations.
	chains []string
	// own is the name of a chain that is made for one attachment. The rules that
	// lead to it are in chains. Zero: there is none.
	own hashedName
	// comment is that of the rules, with the groups key, network, id and
	// interface as far as the plugin writes them.
	comment *regexp.Regexp
	// key is what the plugin derives from the owner for the group key. It proves
	// the other groups. Nil: the comment has no key.
	key func(Owner) string
}

// nftObject is a rule in one of the tables, or a whole chain. Handles are not used
// again.
type nftObject struct {
	table  nftTable
	chain  string
	handle int
	// whole is whether it is the chain, without a handle.
	whole bool
}

func (t nftTable) String() string { return fmt.Sprintf("nft %s %s", t.family, t.name) }

func (t nftTable) scan(ctx context.Context, programs programs, kind Kind) (scanResult, error) {
	var found scanResult
	nft, err := programs.nftables(t.family, t.name)
	if errors.Is(err, exec.ErrNotFound) {
		return found, nil
	}
	if err != nil {
		return found, err
	}
	own, err := t.ownChains(ctx, nft, kind)
	if err != nil {
		return found, err
	}
	for _, chain := range t.chains {
		rules, err := nft.ListRules(ctx, chain)
		if knftables.IsNotFound(err) {
			continue
		}
		if err != nil {
			return found, err
		}
		for _, r := range rules {
			if r.Comment != nil && r.Handle != nil {
				found.Objects = append(found.Objects, t.object(kind, chain, *r.Comment, *r.Handle))
			}
		}
	}
	found.Objects = append(found.Objects, own...)
	return found, nil
}

// ownChains returns the chains that are made for one attachment.
func (t nftTable) ownChains(ctx context.Context, nft knftables.Interface, kind Kind) ([]Object, error) {
	if t.own == (hashedName{}) {
		return nil, nil
	}
	names, err := nft.List(ctx, "chain")
	if knftables.IsNotFound(err) {
		return nil, nil
	}
	var objects []Object
	for _, name := range slices.Sorted(slices.Values(names)) {
		if t.own.matches(name) {
			objects = append(objects, Object{
				Kind: kind, key: name, Where: fmt.Sprintf("%s %s", t, name),
				nft: &nftObject{table: t, chain: name, whole: true},
			})
		}
	}
	return objects, err
}

// object has the owner that the comment names. Where the key does not say the
// same, because the plugin truncated a long comment, it has only the key.
func (t nftTable) object(kind Kind, chain, comment string, handle int) Object {
	o := Object{
		Kind: kind, Where: fmt.Sprintf("%s %s handle %d", t, chain, handle),
		nft: &nftObject{table: t, chain: chain, handle: handle},
	}
	owner, key, ok := parseOwner(t.comment, comment)
	if ok && (t.key == nil || t.key(owner) == key) {
		o.Owner = owner
	}
	o.key = key
	return o
}

// remove removes rules, then chains, in one transaction. When one is gone already
// the rest is removed one by one.
func (t nftTable) remove(ctx context.Context, programs programs, objects []Object) []error {
	slices.SortStableFunc(objects, rulesFirst)
	errs := make([]error, len(objects))
	nft, err := programs.nftables(t.family, t.name)
	if err == nil && t.delete(ctx, nft, objects) == nil {
		return errs
	}
	for i := range objects {
		if errs[i] = err; err == nil {
			errs[i] = t.delete(ctx, nft, objects[i:i+1])
		}
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

func (t nftTable) delete(ctx context.Context, nft knftables.Interface, objects []Object) error {
	tx := nft.NewTransaction()
	for _, o := range objects {
		if !o.nft.whole {
			tx.Delete(&knftables.Rule{Chain: o.nft.chain, Handle: &o.nft.handle})
			continue
		}
		tx.Flush(&knftables.Chain{Name: o.nft.chain})
		tx.Delete(&knftables.Chain{Name: o.nft.chain})
	}
	err := nft.Run(ctx, tx)
	if len(objects) == 1 && knftables.IsNotFound(err) {
		return nil
	}
	return err
}
