// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netfilter

import (
	"net"

	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// Registers of nftables. Of expressions that follow each other each uses the first one.
const (
	Register       = unix.NFT_REG_1
	secondRegister = unix.NFT_REG_2
)

// FamilyMatch is what nft puts before a match of addresses in tables of family inet.
func FamilyMatch(ip net.IP) []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: Register},
		&expr.Cmp{Op: expr.CmpOpEq, Register: Register, Data: []byte{byte(numbers[FamilyOf(ip)])}},
	}
}

// InKind is the kind of the interface by which a packet comes (NFT_META_IIFKIND, which package expr lacks).
const InKind = expr.MetaKey(26)

// LinkMatch compares a name of an interface, or of its kind.
func LinkMatch(key expr.MetaKey, op expr.CmpOp, name string) []expr.Any {
	padded := make([]byte, unix.IFNAMSIZ)
	copy(padded, name)
	return []expr.Any{&expr.Meta{Key: key, Register: Register}, &expr.Cmp{Op: op, Register: Register, Data: padded}}
}

// SourceMatch compares the source of packets with a network.
func SourceMatch(op expr.CmpOp, network net.IPNet) []expr.Any {
	if network.IP.To4() != nil {
		return addressMatch(op, network, 12)
	}
	return addressMatch(op, network, 8)
}

// DestinationMatch compares the destination of packets with a network.
func DestinationMatch(op expr.CmpOp, network net.IPNet) []expr.Any {
	if network.IP.To4() != nil {
		return addressMatch(op, network, 16)
	}
	return addressMatch(op, network, 24)
}

// addressMatch compares the address at an offset of the header as nft does: a prefix of whole
// bytes without a mask.
func addressMatch(op expr.CmpOp, network net.IPNet, offset uint32) []expr.Any {
	address := IPBytes(network.IP.Mask(network.Mask))
	size := uint32(len(address))
	ones, _ := network.Mask.Size()
	masked := ones%8 != 0 || ones == 0
	if !masked {
		size = uint32(ones / 8)
	}
	exprs := []expr.Any{&expr.Payload{DestRegister: Register, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: size}}
	if masked {
		exprs = append(exprs, &expr.Bitwise{
			SourceRegister: Register, DestRegister: Register, Len: size,
			Mask: net.CIDRMask(ones, int(8*size)), Xor: make([]byte, size),
		})
	}
	return append(exprs, &expr.Cmp{Op: op, Register: Register, Data: address[:size]})
}

// PortMatch compares the destination port of packets of a protocol.
func PortMatch(protocol byte, port uint16) []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: Register},
		&expr.Cmp{Op: expr.CmpOpEq, Register: Register, Data: []byte{protocol}},
		&expr.Payload{DestRegister: Register, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
		&expr.Cmp{Op: expr.CmpOpEq, Register: Register, Data: binaryutil.BigEndian.PutUint16(port)},
	}
}

// LocalMatch matches packets to addresses of this host.
func LocalMatch() []expr.Any {
	return localMatch(&expr.Fib{Register: Register, FlagDADDR: true, ResultADDRTYPE: true})
}

// FromLocalMatch matches packets from addresses of this host.
func FromLocalMatch() []expr.Any {
	return localMatch(&expr.Fib{Register: Register, FlagSADDR: true, ResultADDRTYPE: true})
}

func localMatch(address *expr.Fib) []expr.Any {
	return []expr.Any{
		address,
		&expr.Cmp{Op: expr.CmpOpEq, Register: Register, Data: binaryutil.NativeEndian.PutUint32(unix.RTN_LOCAL)},
	}
}

// PortRangeMatch compares the destination port of packets of a protocol with a range.
func PortRangeMatch(protocol byte, first, last uint16) []expr.Any {
	match := PortMatch(protocol, first)
	match[len(match)-1] = &expr.Range{Op: expr.CmpOpEq, Register: Register, FromData: binaryutil.BigEndian.PutUint16(first), ToData: binaryutil.BigEndian.PutUint16(last)}
	return match
}

// DNATAddress translates the address of the destination, and leaves the port.
func DNATAddress(ip net.IP) []expr.Any { return translateAddress(expr.NATTypeDestNAT, ip) }

// SNAT translates the address of the source, and leaves the port if no other flow has it.
func SNAT(ip net.IP) []expr.Any { return translateAddress(expr.NATTypeSourceNAT, ip) }

func translateAddress(kind expr.NATType, ip net.IP) []expr.Any {
	return []expr.Any{
		&expr.Immediate{Register: Register, Data: IPBytes(ip)},
		&expr.NAT{Type: kind, Family: uint32(numbers[FamilyOf(ip)]), RegAddrMin: Register},
	}
}

// DNAT translates the destination.
func DNAT(ip net.IP, port uint16) []expr.Any {
	return []expr.Any{
		&expr.Immediate{Register: Register, Data: IPBytes(ip)},
		&expr.Immediate{Register: secondRegister, Data: binaryutil.BigEndian.PutUint16(port)},
		&expr.NAT{Type: expr.NATTypeDestNAT, Family: uint32(numbers[FamilyOf(ip)]), RegAddrMin: Register, RegProtoMin: secondRegister, Specified: true},
	}
}

// Verdict ends a rule.
func Verdict(kind expr.VerdictKind, chain string) []expr.Any {
	return []expr.Any{&expr.Verdict{Kind: kind, Chain: chain}}
}

// IPBytes returns the address in the length of its family.
func IPBytes(ip net.IP) []byte {
	if v4 := ip.To4(); v4 != nil {
		return v4
	}
	return ip
}
