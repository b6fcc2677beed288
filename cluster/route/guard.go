// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package route

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/netfilter"
	"github.com/allocnet/allocnet/internal/netns"
)

// guard keeps packets out of a pool's VXLAN that are not of its hosts: a table of nftables, whose drops no
// other rule overrides. It drops what allocations, and users other than root, send to the UDP port of
// the VXLAN on any host, because that may leave with the address of this host, and what does leave with it by whatever
// interface it came. It drops what others
// than the sources send to this host in the VXLAN. It also drops what allocations send from the port: with
// the address of this host that would be a connection of which the VXLAN of a host is the answer, and the
// allocation would get the packets of others.
type guard struct {
	device, pool string
	port, id     int
	// underlay is the interface with this host's address. In a container it may be of a kind that
	// allocations have.
	underlay string
	// subnets are those of the pool, where packets to the port are for allocations.
	subnets []netip.Prefix
	// sources are the hosts. nil: they are not known, and nothing is dropped for its source.
	sources []netip.Addr
}

func (g *guard) String() string { return "guard of " + g.device }

// tablePrefix is before the device's name in that of the table.
const tablePrefix = "allocnet-"

// kinds are those of interfaces by which packets of allocations come: also of one that the host has beside
// those of allocations, on the same parent, so that they reach it.
var kinds = []string{"veth", "bridge", "macvlan", "ipvlan", "netkit"}

// ofUser is a bit of the priority of what a user other than root sends to allocations of other hosts, from the end of its
// way to the device until it is recognized as the packet of the VXLAN, which has it, too, and is of the same user to
// nftables. A user can set priorities up to 6 only, and unlike the mark it decides no route.
const ofUser = 1 << 29

// leaving is the priority of rules for packets as they leave: after all translation of addresses.
var leaving = nftables.ChainPriorityRef(*nftables.ChainPriorityLast - 1)

func (g *guard) table() *netfilter.Table {
	var inside, fromAllocations, fromPort [][]expr.Any
	for _, subnet := range g.subnets {
		inside = append(inside, accept(subnet))
	}
	for _, kind := range kinds {
		isFrom := slices.Concat(netfilter.LinkMatch(expr.MetaKeyIIFNAME, expr.CmpOpNeq, g.underlay), netfilter.LinkMatch(netfilter.InKind, expr.CmpOpEq, kind))
		fromAllocations = append(fromAllocations, slices.Concat(isFrom, g.isToPort(), drop))
		fromPort = append(fromPort, slices.Concat(isFrom, g.isFromPort(), drop))
	}
	isOfUser := isNotZero(expr.MetaKeySKUID)
	output := slices.Concat(
		// The pool's gateway is an address of this host.
		[][]expr.Any{slices.Concat(netfilter.LinkMatch(expr.MetaKeyOIFNAME, expr.CmpOpEq, loopback), g.isToPort(), isOfUser, drop)},
		inside,
		[][]expr.Any{slices.Concat(g.isToPort(), isOfUser, isBitUnset(ofUser), drop), slices.Concat(g.isToPort(), isOfUser, setBit(ofUser, 0))},
	)
	isForwardedAsOwn := slices.Concat(isNotZero(expr.MetaKeyIIF), netfilter.FromLocalMatch())
	postrouting := slices.Concat(
		[][]expr.Any{slices.Concat(netfilter.LinkMatch(expr.MetaKeyOIFNAME, expr.CmpOpEq, g.device), isOfUser, setBit(ofUser, ofUser))},
		inside,
		// A packet of a VXLAN has come by its device.
		[][]expr.Any{slices.Concat(netfilter.LinkMatch(netfilter.InKind, expr.CmpOpEq, "vxlan"), netfilter.Verdict(expr.VerdictAccept, ""))},
		[][]expr.Any{slices.Concat(g.isToPort(), isForwardedAsOwn, drop), slices.Concat(g.isFromPort(), isForwardedAsOwn, drop)},
	)
	input := slices.Clone(fromAllocations)
	if g.underlay == loopback { // the host announces its address, and is reached by any interface
		input = nil
	}
	t := &netfilter.Table{Family: netfilter.INet, Name: tablePrefix + g.device}
	for _, zero := range []net.IP{net.IPv4zero, net.IPv6zero} {
		set, source := g.sourcesAs(zero)
		t.Sets = append(t.Sets, set)
		if g.sources != nil {
			input = append(input, slices.Concat(netfilter.FamilyMatch(zero), g.isToPort(), g.isInVXLAN(), netfilter.KeyIn(set.Name, false, source), drop))
		}
	}
	if len(input) == 0 { // an empty chain would look as one that was flushed
		input = append(input, slices.Concat(g.isToPort(), netfilter.Verdict(expr.VerdictAccept, "")))
	}
	comment := g.comment()
	t.Chains = []netfilter.Chain{
		chain("forward", nftables.ChainHookForward, nftables.ChainPriorityFilter, comment, slices.Concat(inside, fromAllocations, fromPort)),
		chain("output", nftables.ChainHookOutput, nftables.ChainPriorityFilter, comment, output),
		chain("input", nftables.ChainHookInput, nftables.ChainPriorityFilter, comment, input),
		chain("postrouting", nftables.ChainHookPostrouting, leaving, comment, postrouting),
	}
	return t
}

func chain(name string, number *nftables.ChainHook, priority *nftables.ChainPriority, comment string, rules [][]expr.Any) netfilter.Chain {
	c := netfilter.Chain{Name: name, Hook: &netfilter.Hook{Number: number, Priority: priority, Filters: true}}
	for _, exprs := range rules {
		c.Rules = append(c.Rules, netfilter.Rule{Chain: name, Exprs: exprs, Comment: comment})
	}
	return c
}

// comment is that of each rule. It differs between guards, and not between processes: the text of a struct would have
// the address that an IP address has of its zone.
func (g *guard) comment() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %d %d %s %s %s %t", g.device, g.pool, g.port, g.id, g.underlay, g.subnets, g.sources, g.sources == nil))
	return "allocnet pool guard " + hex.EncodeToString(sum[:8])
}

// signature is what the kernel's rules are compared by. Nothing changes a rule, or the elements of a constant set,
// but who replaces the rule.
func (g *guard) signature() string {
	var comments [][]string
	for _, c := range g.table().Chains {
		var texts []string
		for _, r := range c.Rules {
			texts = append(texts, r.Comment)
		}
		comments = append(comments, texts)
	}
	return fmt.Sprint(comments)
}

// listGuards reads the signatures of all guards. What cannot be read counts as missing: to make it tells why.
func (s *socket) listGuards(to *snapshot, _ string) error {
	all, _ := guards()
	to.guards = map[string]string{}
	for device, comments := range all {
		to.guards[device] = fmt.Sprint(comments)
	}
	return nil
}

// guards returns the comments of the rules of all guards, by the device, in the order of their chains.
func guards() (map[string][][]string, error) {
	socket, err := netfilter.Dial(context.Background())
	if err != nil {
		return nil, err
	}
	defer socket.Close()
	tables, err := socket.Tables(netfilter.INet)
	all := map[string][][]string{}
	for _, name := range tables {
		device, ours := strings.CutPrefix(name, tablePrefix)
		if !ours {
			continue
		}
		var comments [][]string
		t := (&guard{device: device}).table()
		if dormant, err := socket.IsDormant(t); dormant || err != nil { // it drops nothing
			all[device] = nil
			continue
		}
		for _, c := range t.Chains {
			rules, _ := socket.List(t, c.Name) // the chain may be missing
			var texts []string
			for _, r := range rules {
				texts = append(texts, r.Comment())
			}
			comments = append(comments, texts)
		}
		all[device] = comments
	}
	return all, err
}

// IsGuarded is whether something drops what allocations and users send to the VXLAN of a pool, also as long as it has no device.
func IsGuarded(pool string) (bool, error) {
	all, err := guards()
	isEmpty := func(rules []string) bool { return len(rules) == 0 }
	chains := all[deviceName(pool)]
	return chains != nil && !slices.ContainsFunc(chains, isEmpty), err
}

// doGuard replaces the table in one transaction, or removes it.
func (s *socket) doGuard(v verb, g *guard) error {
	socket, err := netfilter.Dial(context.Background())
	if err != nil {
		return err
	}
	defer socket.Close()
	return socket.Change(func(b *netfilter.Batch) error {
		b.ReplaceTable(g.table(), v == remove)
		return nil
	})
}

// sourcesAs returns the set of the sources of a family, and what is looked up in it.
func (g *guard) sourcesAs(zero net.IP) (set netfilter.Set, source netfilter.KeyPart) {
	kind, offset, length := netfilter.Address6, 8, net.IPv6len
	if zero.To4() != nil {
		kind, offset, length = netfilter.Address4, 12, net.IPv4len
	}
	set.KeySet = netfilter.KeySet{Name: fmt.Sprintf("hosts%d", length), Key: []netfilter.KeyType{kind}, IsConstant: true}
	for _, a := range g.sources {
		if key := a.AsSlice(); len(key) == length {
			set.Elements = append(set.Elements, netfilter.Element{Key: key})
		}
	}
	return set, netfilter.PayloadPart(expr.PayloadBaseNetworkHeader, offset, length)
}

var drop = netfilter.Verdict(expr.VerdictDrop, "")

func compare(op expr.CmpOp, with []byte) expr.Any {
	return &expr.Cmp{Op: op, Register: netfilter.Register, Data: with}
}

func load(of expr.PayloadBase, offset, length int) expr.Any {
	return &expr.Payload{DestRegister: netfilter.Register, Base: of, Offset: uint32(offset), Len: uint32(length)}
}

func accept(subnet netip.Prefix) []expr.Any {
	network := *netns.IPNet(subnet)
	return slices.Concat(netfilter.FamilyMatch(network.IP), netfilter.DestinationMatch(expr.CmpOpEq, network), netfilter.Verdict(expr.VerdictAccept, ""))
}

func (g *guard) isToPort() []expr.Any { return netfilter.PortMatch(unix.IPPROTO_UDP, uint16(g.port)) }

func (g *guard) isFromPort() []expr.Any {
	match := g.isToPort()
	match[2] = load(expr.PayloadBaseTransportHeader, 0, 2) // in place of the destination's
	return match
}

func isNotZero(key expr.MetaKey) []expr.Any {
	return []expr.Any{&expr.Meta{Key: key, Register: netfilter.Register}, compare(expr.CmpOpNeq, make([]byte, 4))}
}

// masked loads those bits of the priority of a packet that are in a mask, and others.
func masked(mask, others uint32) []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyPRIORITY, Register: netfilter.Register},
		&expr.Bitwise{SourceRegister: netfilter.Register, DestRegister: netfilter.Register, Len: 4, Mask: binary.NativeEndian.AppendUint32(nil, mask), Xor: binary.NativeEndian.AppendUint32(nil, others)},
	}
}

func setBit(bit, value uint32) []expr.Any {
	return append(masked(^bit, value), &expr.Meta{Key: expr.MetaKeyPRIORITY, SourceRegister: true, Register: netfilter.Register})
}

func isBitUnset(bit uint32) []expr.Any {
	return append(masked(bit, 0), compare(expr.CmpOpEq, make([]byte, 4)))
}

// isInVXLAN is whether it is in this VXLAN, and not in one of another program with the port (RFC 7348, section 5).
func (g *guard) isInVXLAN() []expr.Any {
	id := binary.BigEndian.AppendUint32(nil, uint32(g.id))
	return []expr.Any{load(expr.PayloadBaseTransportHeader, 8+4, 3), compare(expr.CmpOpEq, id[1:])}
}
