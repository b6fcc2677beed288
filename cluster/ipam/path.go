// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ipam

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Prefix is what all paths begin with. Its number is the version of the contents.
const Prefix = "allocnet/ipam/1/"

// nodesName has the entries of instances. No pool has the name.
const nodesName = "nodes"

// PoolPrefix is what all paths of a pool begin with.
func PoolPrefix(pool string) string { return Prefix + pool + "/" }

// PoolPath is where the configuration of a pool is.
func PoolPath(pool string) string { return PoolPrefix(pool) + "pool" }

// BlocksPrefix is what the paths of a pool's blocks begin with.
func BlocksPrefix(pool string) string { return PoolPrefix(pool) + "b/" }

// AddressesPrefix is what the paths of a pool's reserved addresses begin with.
func AddressesPrefix(pool string) string { return PoolPrefix(pool) + "a/" }

// MembersPath is the entry that says which attachments have the addresses of a piece.
func MembersPath(pool string, piece netip.Prefix) string {
	return PoolPrefix(pool) + "m/" + BlockName(piece)
}

// BlockPath is the entry of a block.
func BlockPath(pool string, b Block) string { return BlocksPrefix(pool) + BlockName(b) }

// AddressPath is the entry of a reserved address.
func AddressPath(pool string, a netip.Addr) string { return AddressesPrefix(pool) + AddressName(a) }

// NodePath is the entry of an instance.
func NodePath(instance string) string { return Prefix + nodesName + "/" + instance }

// BlockName is the name of a block in paths, and of its local files.
func BlockName(b Block) string { return AddressName(b.Addr()) + "-" + strconv.Itoa(b.Bits()) }

// AddressName is the name of an address in paths, and of its local files: in hexadecimal,
// because Nomad's paths have no dots and colons.
func AddressName(a netip.Addr) string { return hex.EncodeToString(a.AsSlice()) }

// parseBlockName is the inverse of BlockName.
func parseBlockName(name string) (Block, error) {
	address, bits, _ := strings.Cut(name, "-")
	a, err := ParseAddressName(address)
	length, lengthErr := strconv.Atoi(bits)
	b := netip.PrefixFrom(a, length)
	if err != nil || lengthErr != nil || b != b.Masked() || BlockName(b) != name {
		return Block{}, fmt.Errorf("%q is no name of a block: want one such as 0a5b0040-26", name)
	}
	return b, nil
}

// ParseAddressName is the inverse of AddressName.
func ParseAddressName(name string) (netip.Addr, error) {
	data, err := hex.DecodeString(name)
	a, ok := netip.AddrFromSlice(data)
	if err != nil || !ok || AddressName(a) != name {
		return netip.Addr{}, fmt.Errorf("%q is no name of an address: want one such as 0a5b0040", name)
	}
	return a, nil
}

// Path is what the path of an entry means: the configuration of a pool, or one of its blocks
// or addresses, or the attachments of a piece, or an instance.
type Path struct {
	// Pool is empty for an instance.
	Pool string
	// Block, Address and Piece are not valid if the path is that of another kind.
	Block    Block
	Address  netip.Addr
	Piece    netip.Prefix
	Instance string
}

// IsInstance tells whether a text is 32 hexadecimal digits, as the name of an instance.
func IsInstance(text string) bool {
	return len(text) == 32 && strings.Trim(text, "0123456789abcdef") == ""
}

// ParsePath reads the path of an entry.
func ParsePath(path string) (p Path, err error) {
	bad := fmt.Errorf("%q is no path of a pool: want %sPOOL/pool, /b/BLOCK, /a/ADDRESS or /m/PIECE, or %snodes/INSTANCE", path, Prefix, Prefix)
	rest, ok := strings.CutPrefix(path, Prefix)
	pool, rest, _ := strings.Cut(rest, "/")
	if ok && pool == nodesName && IsInstance(rest) {
		return Path{Instance: rest}, nil
	}
	if !ok || pool == nodesName || !isPoolName(pool) {
		return Path{}, bad
	}
	p.Pool = pool
	kind, name, _ := strings.Cut(rest, "/")
	switch {
	case rest == "pool":
	case kind == "b":
		p.Block, err = parseBlockName(name)
	case kind == "a":
		p.Address, err = ParseAddressName(name)
	case kind == "m":
		p.Piece, err = parseBlockName(name)
	default:
		return Path{}, bad
	}
	if err != nil {
		return Path{}, fmt.Errorf("path %q: %w", path, err)
	}
	return p, nil
}
