// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netfilter

import (
	"bytes"
	"encoding/binary"
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

// stringOf returns an attribute that is a text, empty if there is none.
func stringOf(data []byte, wanted uint16) string {
	for kind, value := range attributes(data) {
		if kind&^unix.NLA_F_NESTED == wanted {
			return string(bytes.TrimSuffix(value, []byte{0}))
		}
	}
	return ""
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
