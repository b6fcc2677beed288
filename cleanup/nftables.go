// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"context"
	"errors"
	"fmt"
	"os/exec"

	"sigs.k8s.io/knftables"

	"github.com/allocnet/allocnet/state"
)

// nftTable is a table that the reference plugins make in nftables.
type nftTable struct {
	family knftables.Family
	name   string
	kind   Kind
	chains []string
}

var nftTables = []nftTable{
	{knftables.InetFamily, "cni_plugins_masquerade", Masquerade, []string{"masq_checks"}},
	{knftables.IPv4Family, "cni_hostport", Ports, []string{"hostports", "hostip_hostports", "masquerading"}},
	{knftables.IPv6Family, "cni_hostport", Ports, []string{"hostports", "hostip_hostports", "masquerading"}},
}

// nftRule is a rule in one of the tables. Handles are not used again.
type nftRule struct {
	table  nftTable
	chain  string
	handle int
}

func (t nftTable) String() string { return fmt.Sprintf("nft %s %s", t.family, t.name) }

func (t nftTable) open() (knftables.Interface, error) {
	return knftables.New(t.family, t.name, knftables.NoObjectCommentEmulation)
}

func (t nftTable) scan(ctx context.Context) (Found, error) {
	var found Found
	nft, err := t.open()
	if errors.Is(err, exec.ErrNotFound) {
		return found, nil
	}
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
				found.Objects = append(found.Objects, t.object(chain, *r.Comment, *r.Handle))
			}
		}
	}
	return found, nil
}

// object has the owner that the comment names: portmap writes the container ID
// alone.
func (t nftTable) object(chain, comment string, handle int) Object {
	o := Object{
		Kind: t.kind, Where: fmt.Sprintf("%s %s handle %d", t, chain, handle),
		nft: &nftRule{t, chain, handle},
	}
	if t.kind != Ports {
		o.Owner, o.key = instanceOwner(comment)
	} else if state.ValidateContainerID(comment) == nil {
		o.Owner = ownerOf("", comment, "")
	}
	return o
}

// remove removes rules in one transaction. When one is gone already the rest is
// removed one by one.
func (t nftTable) remove(ctx context.Context, objects []Object) []error {
	errs := make([]error, len(objects))
	nft, err := t.open()
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

func (t nftTable) delete(ctx context.Context, nft knftables.Interface, objects []Object) error {
	tx := nft.NewTransaction()
	for _, o := range objects {
		tx.Delete(&knftables.Rule{Chain: o.nft.chain, Handle: &o.nft.handle})
	}
	err := nft.Run(ctx, tx)
	if len(objects) == 1 && knftables.IsNotFound(err) {
		return nil
	}
	return err
}
