// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netfilter

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"
)

// JumpTo returns what recognizes a rule that leads to a chain.
func JumpTo(chain string) func(ListedRule) bool {
	return Containing(attributeOf(unix.NFTA_VERDICT_CHAIN, append([]byte(chain), 0)))
}

// AllTo returns what recognizes a rule that leads to a chain all packets, or all that an
// extension of iptables matches: the administrator may have rules for some of them.
func AllTo(chain, extension string) func(ListedRule) bool {
	isJump := JumpTo(chain)
	return func(rule ListedRule) bool {
		if !isJump(rule) {
			return false
		}
		for _, element := range attributes(rule.exprs) {
			switch name := stringOf(element, unix.NFTA_EXPR_NAME); name {
			case "counter", "immediate":
			case "match":
				if !bytes.Contains(element, attributeOf(unix.NFTA_MATCH_NAME, append([]byte(extension), 0))) {
					return false
				}
			default:
				return false
			}
		}
		return true
	}
}

// valueOf returns an attribute, or one that is nested in it; nil if there is none.
func valueOf(data []byte, path ...uint16) []byte {
	for kind, value := range attributes(data) {
		if kind&^unix.NLA_F_NESTED != path[0] {
			continue
		}
		if len(path) == 1 {
			return value
		}
		return valueOf(value, path[1:]...)
	}
	return nil
}

// stringOf returns an attribute that is a text, empty if there is none.
func stringOf(data []byte, wanted uint16) string {
	return string(bytes.TrimSuffix(valueOf(data, wanted), []byte{0}))
}

// numberOf returns an attribute that is a number, 0 if there is none.
func numberOf(data []byte, wanted uint16) uint32 {
	value := valueOf(data, wanted)
	if len(value) != 4 {
		return 0
	}
	return binary.BigEndian.Uint32(value)
}

// longOf returns an attribute that is a number of 8 bytes, 0 if there is none.
func longOf(data []byte, wanted uint16) uint64 {
	value := valueOf(data, wanted)
	if len(value) != 8 {
		return 0
	}
	return binary.BigEndian.Uint64(value)
}

// Addresses returns the sources that a rule compares with, whole addresses alone, and those that it translates destinations to.
func (r ListedRule) Addresses() []netip.Addr {
	var all []netip.Addr
	add := func(value []byte) {
		if address, ok := netip.AddrFromSlice(value); ok {
			all = append(all, address)
		}
	}
	isSource, registers := false, map[uint32][]byte{}
	for _, element := range attributes(r.exprs) {
		e := valueOf(element, unix.NFTA_EXPR_DATA)
		switch stringOf(element, unix.NFTA_EXPR_NAME) {
		case "immediate":
			registers[numberOf(e, unix.NFTA_IMMEDIATE_DREG)] = valueOf(e, unix.NFTA_IMMEDIATE_DATA, unix.NFTA_DATA_VALUE)
		case "nat":
			if numberOf(e, unix.NFTA_NAT_TYPE) == unix.NFT_NAT_DNAT {
				add(registers[numberOf(e, unix.NFTA_NAT_REG_ADDR_MIN)])
			}
		case "cmp":
			if isSource && numberOf(e, unix.NFTA_CMP_OP) == unix.NFT_CMP_EQ {
				add(valueOf(e, unix.NFTA_CMP_DATA, unix.NFTA_DATA_VALUE))
			}
		}
		isSource = isSourceOf(element, e)
	}
	return all
}

// isSourceOf tells whether an expression loads the source of packets.
func isSourceOf(element, data []byte) bool {
	if stringOf(element, unix.NFTA_EXPR_NAME) != "payload" || numberOf(data, unix.NFTA_PAYLOAD_BASE) != unix.NFT_PAYLOAD_NETWORK_HEADER {
		return false
	}
	offset, length := numberOf(data, unix.NFTA_PAYLOAD_OFFSET), numberOf(data, unix.NFTA_PAYLOAD_LEN)
	return offset == 12 && length == 4 || offset == 8 && length == 16
}

// WithMark returns what recognizes a rule that has a mark as its value and as its mask.
// Versions of iptables-nft have an expression of nftables or an extension of iptables for it.
func WithMark(mark uint32) func(ListedRule) bool {
	value := binary.NativeEndian.AppendUint32(nil, mark)
	return Containing(attributeOf(unix.NFTA_DATA_VALUE, value), slices.Repeat(value, 2))
}

// Containing returns what recognizes a rule whose expressions have one of the patterns.
func Containing(patterns ...[]byte) func(ListedRule) bool {
	return func(rule ListedRule) bool {
		return slices.ContainsFunc(patterns, func(pattern []byte) bool { return bytes.Contains(rule.exprs, pattern) })
	}
}

// attributeOf returns a netlink attribute, without what comes after it.
func attributeOf(kind uint16, value []byte) []byte {
	data := binary.NativeEndian.AppendUint16(nil, uint16(unix.NLA_HDRLEN+len(value)))
	return append(binary.NativeEndian.AppendUint16(data, kind), value...)
}
