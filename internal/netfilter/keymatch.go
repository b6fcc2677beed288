// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netfilter

import (
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// KeyPart loads a part of a key, of this length, into a register.
type KeyPart struct {
	Load   func(register uint32) expr.Any
	Length int
}

// MetaPart loads the name of an interface.
func MetaPart(key expr.MetaKey) KeyPart {
	return KeyPart{func(r uint32) expr.Any { return &expr.Meta{Key: key, Register: r} }, unix.IFNAMSIZ}
}

// PayloadPart loads bytes of a packet.
func PayloadPart(base expr.PayloadBase, offset, length int) KeyPart {
	return KeyPart{func(r uint32) expr.Any {
		return &expr.Payload{DestRegister: r, Base: base, Offset: uint32(offset), Len: uint32(length)}
	}, length}
}

// KeyIn matches packets whose key is in a set, or is not.
func KeyIn(set string, isIn bool, parts ...KeyPart) []expr.Any {
	return append(loadKey(parts), &expr.Lookup{SourceRegister: Register, SetName: set, Invert: !isIn})
}

// KeyVerdict has a map decide, if it has the key.
func KeyVerdict(set string, parts ...KeyPart) []expr.Any {
	return append(loadKey(parts), &expr.Lookup{SourceRegister: Register, SetName: set, DestRegister: unix.NFT_REG_VERDICT, IsDestRegSet: true})
}

// KeyValue loads the value that a map has for the key into Register, and matches if it has the key.
func KeyValue(set string, parts ...KeyPart) []expr.Any {
	return append(loadKey(parts), &expr.Lookup{SourceRegister: Register, SetName: set, DestRegister: Register, IsDestRegSet: true})
}

// loadKey loads the parts one after another, each into registers of its own.
func loadKey(parts []KeyPart) []expr.Any {
	var exprs []expr.Any
	word := 0
	for _, part := range parts {
		register := uint32(unix.NFT_REG32_00 + word)
		if word%4 == 0 { // of 16 bytes
			register = uint32(unix.NFT_REG_1 + word/4)
		}
		exprs = append(exprs, part.Load(register))
		word += (part.Length + 3) / 4
	}
	return exprs
}
