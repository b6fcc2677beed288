// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/knftables"
)

// nftTable is a table that a plugin makes in nftables.
type nftTable struct {
	family knftables.Family
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

// ownChains are chains that a plugin makes for one attachment.
type ownChains struct {
	// prefix begins their names, and those of no others.
	prefix string
	// names are made of the owner.
	names []func(Owner) string
}

func (c ownChains) of(owner Owner) (names []string) {
	for _, name := range c.names {
		names = append(names, name(owner))
	}
	return names
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

// nftListing is a table as nft prints it.
type nftListing struct {
	Items []struct {
		Chain *struct {
			Name string `json:"name"`
		} `json:"chain"`
		Rule *nftRule `json:"rule"`
	} `json:"nftables"`
}

type nftRule struct {
	Chain       string          `json:"chain"`
	Comment     string          `json:"comment"`
	Handle      int             `json:"handle"`
	Expressions []nftExpression `json:"expr"`
}

// nftExpression is a part of a rule that can name the allocation's address: the source of what
// is masqueraded, the destination of what is forwarded.
type nftExpression struct {
	Match struct {
		Op   string `json:"op"`
		Left struct {
			Payload struct {
				Field string `json:"field"`
			} `json:"payload"`
		} `json:"left"`
		Right any `json:"right"`
	} `json:"match"`
	DNAT struct {
		Address any `json:"addr"`
	} `json:"dnat"`
}

func (r nftRule) addresses() []netip.Addr {
	var list []netip.Addr
	for _, e := range r.Expressions {
		value := e.DNAT.Address
		if e.Match.Op == "==" && e.Match.Left.Payload.Field == "saddr" {
			value = e.Match.Right
		}
		text, _ := value.(string) // else it is none, or several
		if address, err := netip.ParseAddr(text); err == nil {
			list = append(list, address)
		}
	}
	return list
}

func (t nftTable) scan(ctx context.Context, h *host, kind Kind, wanted func(chain string) bool) (scanResult, error) {
	var found scanResult
	if !h.programs.installed("nft") {
		return found, unlisted(ctx, h, "nft", notInstalled, t.family, t.name, wanted)
	}
	text, err := h.programs.run(ctx, "", "nft", "--json", "--terse", "list", "table", string(t.family), t.name)
	if err != nil && strings.Contains(err.Error(), "No such file or directory") {
		return found, nil
	}
	if err != nil {
		return found, err
	}
	var listing nftListing
	if err := json.Unmarshal([]byte(text), &listing); err != nil {
		return found, fmt.Errorf("read what nft prints of table %s: %w", t.name, err)
	}
	var own []Object
	for _, item := range listing.Items {
		switch {
		case item.Rule != nil && t.comment.MatchString(item.Rule.Comment) && slices.Contains(t.chains, item.Rule.Chain):
			found.Objects = append(found.Objects, t.object(kind, *item.Rule))
		case item.Chain != nil && t.own.prefix != "" && strings.HasPrefix(item.Chain.Name, t.own.prefix):
			own = append(own, t.ownChain(kind, item.Chain.Name))
		}
	}
	found.Objects = append(found.Objects, own...)
	return found, nil
}

// ownChain is a chain that is made for one attachment.
func (t nftTable) ownChain(kind Kind, name string) Object {
	return Object{
		Kind: kind, key: name, Where: fmt.Sprintf("%s %s", t, name),
		nft: &nftObject{table: t, chain: name, whole: true},
	}
}

// object has the owner that the comment names. Where the key does not say the
// same, because the plugin truncated a long comment, it has only the key.
func (t nftTable) object(kind Kind, r nftRule) Object {
	o := Object{
		Kind: kind, Where: fmt.Sprintf("%s %s handle %d", t, r.Chain, r.Handle), Addresses: r.addresses(),
		nft: &nftObject{table: t, chain: r.Chain, handle: r.Handle},
	}
	owner, key, ok := parseOwner(t.comment, r.Comment)
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
