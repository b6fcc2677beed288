// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ipam

import (
	"fmt"
	"net/netip"
	"time"
)

// MembersContent says which attachments have the addresses of a piece of a pool. Only the host that has the block counts as its author.
type MembersContent struct {
	Pool string `json:"pool"`
	// Instance is the author's, and Node what Nomad calls it.
	Instance string       `json:"instance"`
	Node     string       `json:"node,omitempty"`
	Piece    netip.Prefix `json:"piece"`
	// Written is when the author has confirmed it last.
	Written time.Time     `json:"written"`
	Groups  []MemberGroup `json:"groups"`
}

// MemberGroup are attachments of one allocation, or of several that are not told apart.
type MemberGroup struct {
	Network string `json:"network"`
	// Level is that of its isolation.
	Level     string `json:"level"`
	Namespace string `json:"namespace,omitempty"`
	Job       string `json:"job,omitempty"`
	Group     string `json:"group,omitempty"`
	// Index is the allocation's number in the group. Nil: its host does not know it, or is of an earlier release.
	Index *uint32 `json:"index,omitempty"`

	Addresses []netip.Addr `json:"addresses"`
}

// pieceBits is how many addresses a piece has, as a power of two: they fit into one entry of the store.
const pieceBits = 6

// PieceOf returns the part of a block that has an address. False: it is in no block, as a reserved one, which a pool whose networks span hosts does
// not have.
func (c *Config) PieceOf(a netip.Addr) (netip.Prefix, bool) {
	block, ok := c.BlockOf(a)
	if !ok || !c.Usable(a) {
		return netip.Prefix{}, false
	}
	return pieceOf(a, block), true
}

func pieceOf(a netip.Addr, b Block) netip.Prefix {
	return netip.PrefixFrom(a, max(b.Bits(), a.BitLen()-pieceBits)).Masked()
}

// BlockOfPiece returns the block of a piece. False: it is no piece of the pool.
func (c *Config) BlockOfPiece(piece netip.Prefix) (Block, bool) {
	block, ok := c.BlockOf(piece.Addr())
	return block, ok && piece == pieceOf(piece.Addr(), block)
}

// DecodeMembers reads which attachments have the addresses of a piece.
func DecodeMembers(data []byte, c *Config, piece netip.Prefix) (MembersContent, error) {
	var content MembersContent
	if err := decode(data, &content); err != nil {
		return content, err
	}
	switch {
	case content.Pool != c.Pool:
		return content, fmt.Errorf("the content is of the pool %.64q: want %s", content.Pool, c.Pool)
	case content.Piece != piece:
		return content, fmt.Errorf("the content is of %.64s: want %s", content.Piece, piece)
	}
	for _, g := range content.Groups {
		for _, a := range g.Addresses {
			if of, ok := c.PieceOf(a); !ok || of != piece {
				return content, fmt.Errorf("the content has the address %.64s, which is none of %s", a, piece)
			}
		}
	}
	return content, Host{Instance: content.Instance}.validate()
}
