// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package filter

import (
	"encoding/binary"
	"slices"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/netfilter"
	"github.com/allocnet/allocnet/isolation"
)

// ip is a version of IP, as packets are matched.
type ip struct {
	// suffix is at the end of the names of sets.
	suffix         string
	address        netfilter.KeyType
	size, from, to int
	nfproto, icmp  byte
	etherType      uint16
}

var (
	ip4 = ip{suffix: "4", address: netfilter.Address4, size: 4, from: 12, to: 16, nfproto: unix.NFPROTO_IPV4, icmp: unix.IPPROTO_ICMP, etherType: unix.ETH_P_IP}
	ip6 = ip{suffix: "6", address: netfilter.Address6, size: 16, from: 8, to: 24, nfproto: unix.NFPROTO_IPV6, icmp: unix.IPPROTO_ICMPV6, etherType: unix.ETH_P_IPV6}
	ips = []*ip{&ip4, &ip6}
)

var (
	inLink  = netfilter.MetaPart(expr.MetaKeyIIFNAME)
	outLink = netfilter.MetaPart(expr.MetaKeyOIFNAME)
	// sourceMAC is that of the frame.
	sourceMAC = netfilter.PayloadPart(expr.PayloadBaseLLHeader, 6, 6)
	// target is that of neighbour discovery, in a packet without extension headers.
	target = netfilter.PayloadPart(expr.PayloadBaseNetworkHeader, 48, 16)

	arpMAC    = netfilter.PayloadPart(expr.PayloadBaseNetworkHeader, 8, 6)
	arpSource = netfilter.PayloadPart(expr.PayloadBaseNetworkHeader, 14, 4)
	arpTarget = netfilter.PayloadPart(expr.PayloadBaseNetworkHeader, 24, 4)
)

func (v *ip) source() netfilter.KeyPart {
	return netfilter.PayloadPart(expr.PayloadBaseNetworkHeader, v.from, v.size)
}

func (v *ip) destination() netfilter.KeyPart {
	return netfilter.PayloadPart(expr.PayloadBaseNetworkHeader, v.to, v.size)
}

// match is a part of a rule.
type match = []expr.Any

var (
	accept = netfilter.Verdict(expr.VerdictAccept, "")
	goBack = netfilter.Verdict(expr.VerdictReturn, "")
	// drop counts what it drops.
	drop = append(match{&expr.Counter{}}, netfilter.Verdict(expr.VerdictDrop, "")...)
)

func goTo(chain string) match { return netfilter.Verdict(expr.VerdictGoto, chain) }
func jump(chain string) match { return netfilter.Verdict(expr.VerdictJump, chain) }

func compare(op expr.CmpOp, with ...byte) expr.Any {
	return &expr.Cmp{Op: op, Register: netfilter.Register, Data: with}
}

func load(base expr.PayloadBase, offset, length int) expr.Any {
	return netfilter.PayloadPart(base, offset, length).Load(netfilter.Register)
}

func meta(key expr.MetaKey, op expr.CmpOp, with ...byte) match {
	return match{&expr.Meta{Key: key, Register: netfilter.Register}, compare(op, with...)}
}

// is matches the version in tables of family inet, and isFrame in those of bridges.
func (v *ip) is() match { return meta(expr.MetaKeyNFPROTO, expr.CmpOpEq, v.nfproto) }

func (v *ip) isFrame() match { return isEtherType(v.etherType) }

// isEtherType looks into the frame: of a tagged one the type is that of the outermost tag.
func isEtherType(kind uint16) match {
	return match{load(expr.PayloadBaseLLHeader, 12, 2), compare(expr.CmpOpEq, binary.BigEndian.AppendUint16(nil, kind)...)}
}

func protocol(op expr.CmpOp, number byte) match { return meta(expr.MetaKeyL4PROTO, op, number) }

// header compares a byte of the header of the transport.
func header(offset int, op expr.CmpOp, with ...byte) match {
	return match{load(expr.PayloadBaseTransportHeader, offset, len(with)), compare(op, with...)}
}

// masked has bits of what is loaded compared with zero.
func masked(mask []byte, op expr.CmpOp) match {
	zero := make([]byte, len(mask))
	return match{
		&expr.Bitwise{SourceRegister: netfilter.Register, DestRegister: netfilter.Register, Len: uint32(len(mask)), Mask: mask, Xor: zero},
		compare(op, zero...),
	}
}

// differsIn matches if bits of a byte that is loaded are not these.
func differsIn(mask, bits byte) match {
	return match{
		&expr.Bitwise{SourceRegister: netfilter.Register, DestRegister: netfilter.Register, Len: 1, Mask: []byte{mask}, Xor: []byte{0}},
		compare(expr.CmpOpNeq, bits),
	}
}

// Bits of connection tracking (enum ip_conntrack_info, enum ip_conntrack_status).
const (
	established, related = 2, 4
	translated           = 0x20
)

func tracked(key expr.CtKey, bits uint32) match {
	return append(match{&expr.Ct{Key: key, Register: netfilter.Register}}, masked(binary.NativeEndian.AppendUint32(nil, bits), expr.CmpOpNeq)...)
}

var protocols = map[string]byte{"tcp": unix.IPPROTO_TCP, "udp": unix.IPPROTO_UDP, "sctp": unix.IPPROTO_SCTP}

// ports matches a protocol of one version of IP, and ports of the destination.
func (v *ip) ports(p isolation.Ports) match {
	number, ok := protocols[p.Protocol]
	if !ok {
		return protocol(expr.CmpOpEq, v.icmp)
	}
	matched := protocol(expr.CmpOpEq, number)
	if p.First == 0 {
		return matched
	}
	first, last := binary.BigEndian.AppendUint16(nil, p.First), binary.BigEndian.AppendUint16(nil, max(p.First, p.Last))
	if slices.Equal(first, last) {
		return append(matched, header(2, expr.CmpOpEq, first...)...)
	}
	return append(matched, load(expr.PayloadBaseTransportHeader, 2, 2), &expr.Range{Op: expr.CmpOpEq, Register: netfilter.Register, FromData: first, ToData: last})
}
