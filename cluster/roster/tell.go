// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package roster

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/netip"
	"reflect"
	"slices"

	"github.com/allocnet/allocnet/cluster/follow"
	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/isolation"
)

// tell makes the entries of the pieces that this host has what it has of them.
func (r *Roster) tell(ctx context.Context, store ipam.Store) error {
	own, err := r.o.Own(ctx)
	if err != nil && len(own) == 0 {
		return err
	}
	wanted := r.wanted(own)
	paths := map[string]bool{}
	for path := range wanted {
		paths[path] = true
	}
	for path, index := range r.view.Listed {
		if p, err := ipam.ParsePath(path); err == nil && p.Piece.IsValid() && index > 0 {
			paths[path] = true
		}
	}
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		if errTold := r.tellOne(ctx, store, path, wanted[path]); errTold != nil {
			return errors.Join(err, errTold)
		}
	}
	return err
}

// tellOne makes an entry what this host wants; nil: it has nothing there.
func (r *Roster) tellOne(ctx context.Context, store ipam.Store, path string, wanted *ipam.MembersContent) error {
	p, err := ipam.ParsePath(path)
	if err != nil {
		return err
	}
	governor := r.view.governor(p.Piece)
	if governor == "" { // of a range that this host does not have yet
		return nil
	}
	if r.view.Listed[governor] == 0 {
		return r.removeAbandoned(ctx, store, path)
	}
	delete(r.view.abandoned, path)
	have := r.view.Known[path]
	switch {
	case r.view.Known[governor].Content.owner != r.host.Instance:
		return nil
	case wanted == nil && have.Index == 0, wanted != nil && have.Content.members != nil && r.isTold(have.Content.members, wanted):
		return nil
	}
	index, err := write(ctx, store, path, wanted, have.Index)
	if err != nil || wanted == nil {
		delete(r.view.Known, path)
		r.view.IsCurrent = r.view.IsCurrent && err == nil // what is there now is not known
		if errors.Is(err, ipam.ErrConflict) {
			err = nil // another one was faster: the next round sees it
		}
		return err
	}
	r.view.Written = index
	r.view.Known[path] = follow.Entry[entry]{Index: index, Content: entry{members: wanted}, Read: r.o.Now()}
	return nil
}

func write(ctx context.Context, store ipam.Store, path string, wanted *ipam.MembersContent, index uint64) (uint64, error) {
	switch {
	case wanted == nil:
		return 0, store.Delete(ctx, path, index)
	case index == 0:
		return store.Create(ctx, path, ipam.Encode(*wanted))
	}
	return store.Update(ctx, path, ipam.Encode(*wanted), index)
}

// isTold tells whether an entry has what is wanted, and was confirmed not long ago.
func (r *Roster) isTold(have, wanted *ipam.MembersContent) bool {
	age := wanted.Written.Sub(have.Written)
	return have.Instance == wanted.Instance && have.Node == wanted.Node && age >= 0 && age < confirmEvery && reflect.DeepEqual(have.Groups, wanted.Groups)
}

// removeAbandoned removes the entry of a piece that no host has, some time after this was found.
func (r *Roster) removeAbandoned(ctx context.Context, store ipam.Store, path string) error {
	have, now := r.view.Known[path], r.o.Now()
	since, ok := r.view.abandoned[path]
	switch {
	case have.Index == 0:
		return nil
	case !ok:
		r.view.abandoned[path] = now
		return nil
	case now.Sub(since) < abandoned:
		return nil
	}
	delete(r.view.abandoned, path)
	if err := store.Delete(ctx, path, have.Index); err != nil && !errors.Is(err, ipam.ErrConflict) {
		return err
	}
	delete(r.view.Known, path)
	return nil
}

// wanted returns what is to be told of attachments of this host, by path.
func (r *Roster) wanted(own []isolation.Member) map[string]*ipam.MembersContent {
	all := map[string]*ipam.MembersContent{}
	for _, m := range own {
		if m.Link == "" || m.Host != "" {
			continue
		}
		for _, a := range m.Addresses {
			piece, ok := r.o.Config.PieceOf(a.Unmap())
			if !ok {
				continue
			}
			path := ipam.MembersPath(r.o.Config.Pool, piece)
			if all[path] == nil {
				all[path] = &ipam.MembersContent{
					Pool: r.o.Config.Pool, Instance: r.host.Instance, Node: r.host.NodeName, Piece: piece, Written: r.o.Now().UTC(),
				}
			}
			add(all[path], groupOf(m), a.Unmap())
		}
	}
	for _, content := range all {
		slices.SortFunc(content.Groups, func(a, b ipam.MemberGroup) int { return a.Addresses[0].Compare(b.Addresses[0]) })
	}
	return all
}

// mostIdentity limits what is told of whose an attachment is, in bytes of JSON, so that an entry has room for all addresses of its piece whatever
// the authors of jobs call them. No usual name comes near it.
const mostIdentity = 512

// groupOf is an attachment as other hosts are told of it.
func groupOf(m isolation.Member) ipam.MemberGroup {
	g := ipam.MemberGroup{Network: m.Network, Level: cmp.Or(string(m.Level), string(isolation.None)), Namespace: m.Namespace, Job: m.Job, Group: m.Group, Index: m.Index}
	encoded, err := json.Marshal([]string{g.Namespace, g.Job, g.Group})
	if err != nil || len(encoded) > mostIdentity || slices.ContainsFunc([]string{g.Namespace, g.Job, g.Group}, isLong) {
		g.Namespace, g.Job, g.Group, g.Index = "", "", "", nil
	}
	return g
}

// add adds an address to those of its group.
func add(content *ipam.MembersContent, g ipam.MemberGroup, a netip.Addr) {
	for i := range content.Groups {
		other := &content.Groups[i]
		if isSame(*other, g) {
			other.Addresses = append(other.Addresses, a)
			slices.SortFunc(other.Addresses, netip.Addr.Compare)
			return
		}
	}
	g.Addresses = []netip.Addr{a}
	content.Groups = append(content.Groups, g)
}

func isSame(a, b ipam.MemberGroup) bool {
	a.Addresses, b.Addresses = nil, nil
	return reflect.DeepEqual(a, b)
}
