// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package route

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// guard keeps packets out of a pool's VXLAN that are not of its hosts: a table of nftables, whose drops no
// other rule overrides. It drops what allocations, and users other than root, send to the UDP port of
// the VXLAN on any host, because that may leave with the address of this host. It drops what others
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

// guardChain is a chain of the table.
type guardChain struct {
	name  string
	hook  *nftables.ChainHook
	rules [][]expr.Any
}

// kinds are those of interfaces by which packets of allocations come: also of one that the host has beside
// those of allocations, on the same parent, so that they reach it.
var kinds = []string{"veth", "bridge", "macvlan", "ipvlan", "netkit"}

// ofUser is the mark of what a user other than root sends to allocations of other hosts. The packet of the
// VXLAN has it, too, and is of the same user to nftables. A user cannot mark packets.
const ofUser = 1 << 29

func (g *guard) chains() []guardChain {
	var inside, fromAllocations, fromPort [][]expr.Any
	for _, subnet := range g.subnets {
		inside = append(inside, accept(subnet))
	}
	for _, kind := range kinds {
		isFrom := rule(isNot(iifname, interfaceName(g.underlay)), is(iifkind, interfaceName(kind)))
		fromAllocations = append(fromAllocations, rule(isFrom, g.isPort(toPort), drop))
		fromPort = append(fromPort, rule(isFrom, g.isPort(sourcePort), drop))
	}
	isOfUser := isNot(skuid, make([]byte, 4))
	output := [][]expr.Any{
		rule(is(oifname, interfaceName(g.device)), isOfUser, setMark(ofUser)),
		rule(is(oifname, interfaceName(loopback)), g.isPort(toPort), isOfUser, drop), // the pool's gateway is an address of this host
	}
	input := slices.Clone(fromAllocations)
	if g.underlay == loopback { // the host announces its address, and is reached by any interface
		input = nil
	}
	if g.sources != nil {
		input = append(input, rule(is(family, []byte{unix.NFPROTO_IPV4}), g.isPort(toPort), g.isInVXLAN(), g.isFromOther(4), drop), rule(is(family, []byte{unix.NFPROTO_IPV6}), g.isPort(toPort), g.isInVXLAN(), g.isFromOther(16), drop))
	}
	return []guardChain{
		{"forward", nftables.ChainHookForward, slices.Concat(inside, fromAllocations, fromPort)},
		{"output", nftables.ChainHookOutput, slices.Concat(output, inside, [][]expr.Any{rule(g.isPort(toPort), isOfUser, isUnmarked(ofUser), drop)})},
		{"input", nftables.ChainHookInput, input},
	}
}

// comment is that of each rule, and differs between guards.
func (g *guard) comment() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%+v %t", *g, g.sources == nil))
	return "allocnet pool guard " + hex.EncodeToString(sum[:8])
}

// signature is what the kernel's rules are compared by. Nothing changes a rule, or the elements of a constant set,
// but who replaces the rule.
func (g *guard) signature() string {
	var comments [][]string
	for _, c := range g.chains() {
		comments = append(comments, slices.Repeat([]string{g.comment()}, len(c.rules)))
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
	conn, err := nftables.New()
	if err != nil {
		return nil, err
	}
	tables, err := conn.ListTablesOfFamily(nftables.TableFamilyINet)
	if err != nil {
		return nil, err
	}
	all := map[string][][]string{}
	for _, t := range tables {
		device, ours := strings.CutPrefix(t.Name, tablePrefix)
		if !ours {
			continue
		}
		var comments [][]string
		for _, c := range (&guard{}).chains() {
			rules, _ := conn.GetRules(t, &nftables.Chain{Name: c.name}) // the chain may be missing
			var texts []string
			for _, r := range rules {
				text, _ := userdata.GetString(r.UserData, userdata.TypeComment)
				texts = append(texts, text)
			}
			comments = append(comments, texts)
		}
		all[device] = comments
	}
	return all, nil
}

// IsGuarded is whether something drops what allocations send to the VXLAN of a device.
func IsGuarded(device string) (bool, error) {
	all, err := guards()
	return len(all[device]) > 0 && len(all[device][0]) > 0, err // the first chain is that of allocations
}

// doGuard replaces the table in one transaction, or removes it.
func (s *socket) doGuard(v verb, g *guard) error {
	conn, err := nftables.New(nftables.WithSockOptions(func(c *netlink.Conn) error { return c.SetWriteBuffer(writeBuffer) }))
	if err != nil {
		return err
	}
	t := &nftables.Table{Family: nftables.TableFamilyINet, Name: tablePrefix + g.device}
	conn.AddTable(t) // there is one to delete
	conn.DelTable(t)
	if v == remove {
		return conn.Flush()
	}
	conn.AddTable(t)
	err = errors.Join(g.addSources(conn, t, 4, nftables.TypeIPAddr), g.addSources(conn, t, 16, nftables.TypeIP6Addr))
	for _, c := range g.chains() {
		chain := conn.AddChain(&nftables.Chain{Table: t, Name: c.name, Type: nftables.ChainTypeFilter, Hooknum: c.hook, Priority: nftables.ChainPriorityFilter})
		for _, exprs := range c.rules {
			conn.AddRule(&nftables.Rule{Table: t, Chain: chain, Exprs: exprs, UserData: userdata.AppendString(nil, userdata.TypeComment, g.comment())})
		}
	}
	return errors.Join(err, conn.Flush())
}

const (
	// writeBuffer has room for thousands of sources.
	writeBuffer = 1 << 20
	// mostElements is how many a message has.
	mostElements = 1000
)

// addSources makes the set of the sources whose addresses have so many bytes.
func (g *guard) addSources(conn *nftables.Conn, t *nftables.Table, length int, of nftables.SetDatatype) error {
	set := &nftables.Set{Table: t, Name: sourcesName(length), Constant: true, KeyType: of}
	err := conn.AddSet(set, nil)
	var elements []nftables.SetElement
	for _, a := range g.sources {
		if key := a.AsSlice(); len(key) == length {
			elements = append(elements, nftables.SetElement{Key: key})
		}
	}
	for part := range slices.Chunk(elements, mostElements) {
		err = errors.Join(err, conn.SetAddElements(set, part))
	}
	return err
}

func sourcesName(length int) string { return fmt.Sprintf("hosts%d", length) }

const (
	iifname = expr.MetaKeyIIFNAME
	iifkind = expr.MetaKey(26) // NFT_META_IIFKIND, which package unix lacks
	oifname = expr.MetaKeyOIFNAME
	family  = expr.MetaKeyNFPROTO
	skuid   = expr.MetaKeySKUID
)

var drop = []expr.Any{&expr.Verdict{Kind: expr.VerdictDrop}}

func rule(parts ...[]expr.Any) []expr.Any { return slices.Concat(parts...) }

// compared compares what an expression loads.
func compared(load expr.Any, op expr.CmpOp, with []byte) []expr.Any {
	return []expr.Any{load, &expr.Cmp{Op: op, Register: unix.NFT_REG_1, Data: with}}
}

func is(key expr.MetaKey, value []byte) []expr.Any {
	return compared(&expr.Meta{Key: key, Register: unix.NFT_REG_1}, expr.CmpOpEq, value)
}

func isNot(key expr.MetaKey, value []byte) []expr.Any {
	return compared(&expr.Meta{Key: key, Register: unix.NFT_REG_1}, expr.CmpOpNeq, value)
}

// interfaceName is a name as nftables compares it.
func interfaceName(name string) []byte {
	padded := make([]byte, unix.IFNAMSIZ)
	copy(padded, name)
	return padded
}

// load loads a part of a header into a register.
func load(of expr.PayloadBase, offset, length int) *expr.Payload {
	return &expr.Payload{DestRegister: unix.NFT_REG_1, Base: of, Offset: uint32(offset), Len: uint32(length)}
}

// accept accepts what is for a subnet.
func accept(subnet netip.Prefix) []expr.Any {
	mask, length := make([]byte, subnet.Addr().BitLen()/8), subnet.Addr().BitLen()/8
	for i := range subnet.Bits() {
		mask[i/8] |= 0x80 >> (i % 8)
	}
	offset, number := 16, byte(unix.NFPROTO_IPV4)
	if subnet.Addr().Is6() {
		offset, number = 24, unix.NFPROTO_IPV6
	}
	return rule(is(family, []byte{number}), []expr.Any{
		load(expr.PayloadBaseNetworkHeader, offset, length),
		&expr.Bitwise{SourceRegister: unix.NFT_REG_1, DestRegister: unix.NFT_REG_1, Len: uint32(length), Mask: mask, Xor: make([]byte, length)},
		&expr.Cmp{Op: expr.CmpOpEq, Register: unix.NFT_REG_1, Data: subnet.Masked().Addr().AsSlice()},
		&expr.Verdict{Kind: expr.VerdictAccept},
	})
}

// sourcePort and toPort are where the ports are in the header of UDP.
const sourcePort, toPort = 0, 2

// isPort is whether a packet is from or to the UDP port of the VXLAN.
func (g *guard) isPort(offset int) []expr.Any {
	return rule(is(expr.MetaKeyL4PROTO, []byte{unix.IPPROTO_UDP}),
		compared(load(expr.PayloadBaseTransportHeader, offset, 2), expr.CmpOpEq, binaryutil.BigEndian.PutUint16(uint16(g.port))))
}

// masked loads those bits of the mark of a packet that are in a mask, and others.
func masked(mask, others uint32) []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyMARK, Register: unix.NFT_REG_1},
		&expr.Bitwise{SourceRegister: unix.NFT_REG_1, DestRegister: unix.NFT_REG_1, Len: 4, Mask: binaryutil.NativeEndian.PutUint32(mask), Xor: binaryutil.NativeEndian.PutUint32(others)},
	}
}

// setMark sets a bit of the mark.
func setMark(bit uint32) []expr.Any {
	return append(masked(^bit, bit), &expr.Meta{Key: expr.MetaKeyMARK, SourceRegister: true, Register: unix.NFT_REG_1})
}

// isUnmarked is whether a bit of the mark is not set.
func isUnmarked(bit uint32) []expr.Any {
	return append(masked(bit, 0), &expr.Cmp{Op: expr.CmpOpEq, Register: unix.NFT_REG_1, Data: make([]byte, 4)})
}

// isInVXLAN is whether it is in this VXLAN, and not in one of another program with the port (RFC 7348, section 5).
func (g *guard) isInVXLAN() []expr.Any {
	id := binary.BigEndian.AppendUint32(nil, uint32(g.id))
	return compared(load(expr.PayloadBaseTransportHeader, 8+4, 3), expr.CmpOpEq, id[1:])
}

// isFromOther is whether a packet is from none of the sources whose addresses have so many bytes.
func (g *guard) isFromOther(length int) []expr.Any {
	offset := 12
	if length == 16 {
		offset = 8
	}
	return []expr.Any{load(expr.PayloadBaseNetworkHeader, offset, length), &expr.Lookup{SourceRegister: unix.NFT_REG_1, SetName: sourcesName(length), Invert: true}}
}
