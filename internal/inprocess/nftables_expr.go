// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"net"
	"slices"

	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// Registers of nftables that the rules use.
const (
	register       = unix.NFT_REG_1
	secondRegister = unix.NFT_REG_2
)

// isIPv4 tells the family of an address.
func isIPv4(ip net.IP) bool { return ip.To4() != nil }

// ipBytes returns the address in the length of its family.
func ipBytes(ip net.IP) []byte {
	if v4 := ip.To4(); v4 != nil {
		return v4
	}
	return ip
}

// hostNetwork returns the network that has only one address.
func hostNetwork(ip net.IP) net.IPNet {
	bits := 8 * len(ipBytes(ip))
	return net.IPNet{IP: ip, Mask: net.CIDRMask(bits, bits)}
}

// familyMatch is what nft puts before a match of addresses in tables of family inet.
func familyMatch(ip net.IP) []expr.Any {
	family := byte(unix.NFPROTO_IPV6)
	if isIPv4(ip) {
		family = unix.NFPROTO_IPV4
	}
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: register},
		&expr.Cmp{Op: expr.CmpOpEq, Register: register, Data: []byte{family}},
	}
}

// sourceMatch compares the source of packets with a network.
func sourceMatch(op expr.CmpOp, network net.IPNet) []expr.Any {
	if isIPv4(network.IP) {
		return addressMatch(op, network, 12)
	}
	return addressMatch(op, network, 8)
}

// destinationMatch compares the destination of packets with a network.
func destinationMatch(op expr.CmpOp, network net.IPNet) []expr.Any {
	if isIPv4(network.IP) {
		return addressMatch(op, network, 16)
	}
	return addressMatch(op, network, 24)
}

// addressMatch compares the address at an offset of the header as nft does: a prefix of whole
// bytes without a mask.
func addressMatch(op expr.CmpOp, network net.IPNet, offset uint32) []expr.Any {
	address := ipBytes(network.IP.Mask(network.Mask))
	size := uint32(len(address))
	ones, _ := network.Mask.Size()
	masked := ones%8 != 0 || ones == 0
	if !masked {
		size = uint32(ones / 8)
	}
	exprs := []expr.Any{&expr.Payload{DestRegister: register, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: size}}
	if masked {
		exprs = append(exprs, &expr.Bitwise{
			SourceRegister: register, DestRegister: register, Len: size,
			Mask: net.CIDRMask(ones, int(8*size)), Xor: make([]byte, size),
		})
	}
	return append(exprs, &expr.Cmp{Op: op, Register: register, Data: address[:size]})
}

// portMatch compares the destination port of packets of a protocol.
func portMatch(protocol byte, port uint16) []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: register},
		&expr.Cmp{Op: expr.CmpOpEq, Register: register, Data: []byte{protocol}},
		&expr.Payload{DestRegister: register, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
		&expr.Cmp{Op: expr.CmpOpEq, Register: register, Data: binaryutil.BigEndian.PutUint16(port)},
	}
}

// localMatch matches packets to addresses of this host.
func localMatch() []expr.Any {
	return []expr.Any{
		&expr.Fib{Register: register, FlagDADDR: true, ResultADDRTYPE: true},
		&expr.Cmp{Op: expr.CmpOpEq, Register: register, Data: binaryutil.NativeEndian.PutUint32(unix.RTN_LOCAL)},
	}
}

// dnat translates the destination.
func dnat(ip net.IP, port uint16) []expr.Any {
	family := uint32(unix.NFPROTO_IPV6)
	if isIPv4(ip) {
		family = unix.NFPROTO_IPV4
	}
	return []expr.Any{
		&expr.Immediate{Register: register, Data: ipBytes(ip)},
		&expr.Immediate{Register: secondRegister, Data: binaryutil.BigEndian.PutUint16(port)},
		&expr.NAT{Type: expr.NATTypeDestNAT, Family: family, RegAddrMin: register, RegProtoMin: secondRegister, Specified: true},
	}
}

func verdict(kind expr.VerdictKind, chain string) []expr.Any {
	return []expr.Any{&expr.Verdict{Kind: kind, Chain: chain}}
}

// statement joins the parts of a rule.
func statement(parts ...[]expr.Any) []expr.Any { return slices.Concat(parts...) }
