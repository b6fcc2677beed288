// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package roster

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/containernetworking/cni/pkg/utils"

	"github.com/allocnet/allocnet/cluster/follow"
	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/isolation"
)

// view is what was read of a pool in the store.
type view struct {
	*follow.Entries[entry]
	config *ipam.Config
	// abandoned is since when pieces are no host's.
	abandoned map[string]time.Time
}

// entry is what is of use of one.
type entry struct {
	// members are those of a piece. Nil: the content is of no use.
	members *ipam.MembersContent
	// owner is the instance that has a block. Empty: none is known.
	owner string
}

func newView(c *ipam.Config) *view {
	v := &view{config: c, abandoned: map[string]time.Time{}}
	v.Entries = follow.New(ipam.PoolPrefix(c.Pool), isNeeded, v.decode)
	return v
}

// isNeeded tells whether a path is that of a piece or a block.
func isNeeded(path string) bool {
	p, err := ipam.ParsePath(path)
	return err == nil && (p.Block.IsValid() || p.Piece.IsValid())
}

// decode reads what is of use of an entry, which another host has written.
func (v *view) decode(got ipam.Entry) (e entry) {
	p, err := ipam.ParsePath(got.Path)
	switch {
	case err != nil:
	case p.Piece.IsValid():
		if content, err := ipam.DecodeMembers(got.Content, v.config, p.Piece); err == nil {
			e.members = &content
		}
	case p.Block.IsValid():
		if content, err := ipam.DecodeBlock(got.Content, v.config); err == nil && content.Block == p.Block {
			e.owner = content.Host.Instance
		}
	}
	return e
}

// mostText limits each text of an entry, in bytes: all of them are kept.
const mostText = 256

// remotes returns what other hosts than an instance say of their own pieces.
func (v *view) remotes(instance string) (all []isolation.Remote) {
	for _, path := range slices.Sorted(maps.Keys(v.Known)) {
		read, members := v.Known[path].Read, v.Known[path].Content.members
		if members == nil || members.Instance == instance || v.ownerOf(members) != members.Instance {
			continue
		}
		confirmed := members.Written
		if read.Before(confirmed) {
			confirmed = read
		}
		for _, g := range members.Groups {
			level := isolation.Level(g.Level)
			if len(g.Addresses) == 0 || !isLevel(level) || slices.ContainsFunc([]string{g.Network, g.Namespace, g.Job, g.Group}, isLong) {
				continue
			}
			if utils.ValidateNetworkName(g.Network) != nil { // a listing of nftables has it, and is loaded again
				continue
			}
			all = append(all, isolation.Remote{
				Host: host(members), Network: g.Network, Level: level, Namespace: g.Namespace, Job: g.Job, Group: g.Group, Index: g.Index,
				Addresses: g.Addresses, Confirmed: confirmed.UTC().Truncate(time.Second),
			})
		}
	}
	return all
}

func isLong(text string) bool { return len(text) > mostText }

func isLevel(l isolation.Level) bool {
	return l == isolation.None || l == isolation.Network || l == isolation.Strict
}

// ownerOf returns the instance that may speak for a piece. Empty: none.
func (v *view) ownerOf(m *ipam.MembersContent) string {
	return v.Known[v.governor(m.Piece)].Content.owner
}

// governor is the path of the entry that says whose a piece is. Empty: it is no piece of the pool.
func (v *view) governor(piece netip.Prefix) string {
	block, ok := v.config.BlockOfPiece(piece)
	if !ok {
		return ""
	}
	return ipam.BlockPath(v.config.Pool, block)
}

// host is what people call the author of an entry.
func host(m *ipam.MembersContent) string {
	if m.Node == "" || isLong(m.Node) {
		return m.Instance
	}
	return m.Node
}
