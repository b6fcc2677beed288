// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package filter

import (
	"encoding/binary"
	"maps"
	"slices"
	"sync"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/netfilter"
	"github.com/allocnet/allocnet/isolation"
)

// name is that of both tables.
const name = isolation.Table

// table is one of the two, with what it has to have.
type table struct {
	netfilter.Table

	// in and out are the parts of keys that are the interfaces by which a packet comes, and goes on.
	in, out netfilter.KeyPart
	// isInside is whether it is that of an allocation, in its namespace: what the host sends comes from elsewhere there.
	isInside bool

	sets   map[string]*set
	chains map[string]*netfilter.Chain
	// there is what the kernel has of it, if this is the rest; nil: this is the whole.
	there *listing
	// version is the name of an empty chain that tells which form of the table was made: a rule of another form may have the same comment.
	version string
}

// set is a set of a table, with its elements by their keys.
type set struct {
	netfilter.KeySet

	elements map[string]netfilter.Element
}

func newTable(family netfilter.Family, comment string) *table {
	return &table{
		Table: netfilter.Table{Family: family, Name: name, Comment: comment}, in: inLink, out: outLink,
		sets: map[string]*set{}, chains: map[string]*netfilter.Chain{},
	}
}

// before is the priority of chains of family inet that see what is routed: the filters of others have 0. early is before others look at
// sources: connections are tracked at -200, and bridges translate at -300.
var (
	before           = nftables.ChainPriorityRef(-10)
	early            = nftables.ChainPriorityRef(-320)
	translatedBefore = nftables.ChainPriorityRef(*nftables.ChainPriorityNATDest + 1)
)

// publishedBit is the priority of a packet to a published port of a neighbour. Where bridges give their packets to the rules of IP
// (br_netfilter), such a packet is not routed: the bridge forwards it after these rules. No priority gets through a veth pair.
var publishedBit = binary.NativeEndian.AppendUint32(nil, 1<<29)

// chain adds a chain to which others lead.
func (t *table) chain(name, comment string, rules ...netfilter.Rule) *netfilter.Chain {
	c := &netfilter.Chain{Name: name, Comment: comment}
	for _, r := range rules {
		r.Chain = name
		c.Rules = append(c.Rules, r)
	}
	t.chains[name] = c
	return c
}

// base adds a chain that packets enter.
func (t *table) base(name string, number *nftables.ChainHook, priority *nftables.ChainPriority, rules ...netfilter.Rule) {
	t.chain(name, "", rules...).Hook = &netfilter.Hook{Number: number, Priority: priority, Filters: true}
}

// hasSet tells whether it has a set, or is to have it.
func (t *table) hasSet(name string) bool {
	return t.sets[name] != nil || t.there != nil && t.there.sets[name] != nil
}

func (t *table) set(s netfilter.KeySet) *set {
	if found := t.sets[s.Name]; found != nil {
		return found
	}
	made := &set{s, map[string]netfilter.Element{}}
	t.sets[s.Name] = made
	return made
}

// put adds an element to its set, which is there. One that several attachments have, because one of them is gone and not removed yet, is that
// of the last and goes with none of them.
func (t *table) put(set string, e netfilter.Element) {
	id := identity(e)
	if other, ok := t.sets[set].elements[id]; ok && other.Comment != e.Comment {
		e.Comment = ""
	}
	t.sets[set].elements[id] = e
}

// identity tells an element from the others of its set, and has them in the order in which the kernel takes ranges: one ends before another
// begins.
func identity(e netfilter.Element) string {
	if e.IsEnd {
		return string(e.Key) + "0"
	}
	return string(e.Key) + "1"
}

// chainNames are those of the chains in the order of the alphabet.
func (t *table) chainNames() []string { return slices.Sorted(maps.Keys(t.chains)) }

func rule(comment string, parts ...match) netfilter.Rule {
	return netfilter.Rule{Comment: shortened(comment), Exprs: slices.Concat(parts...)}
}

// mostComment is less than nft reads of a comment: a bridge may follow.
const mostComment = 100

// ownerText is the comment of an element of an attachment.
func ownerText(id string) string {
	if len(id) <= mostComment {
		return id
	}
	return shortened(id)[:mostComment/2] + Sum([]byte(id))
}

// shortened is a comment as long as nft reads one.
func shortened(comment string) string {
	if len(comment) <= mostComment {
		return comment
	}
	cut := mostComment
	for cut > 0 && comment[cut]&0xc0 == 0x80 { // within a character
		cut--
	}
	return comment[:cut]
}

// Names of sets of both families of addresses, without the suffix of the version of IP: of the attachments of this host, of those whose
// network has a level but none, of the chains for a destination, and for a source, and of the addresses that an end may send from.
const (
	members  = "members"
	isolated = "isolated"
	allow    = "allow"
	egress   = "egress"
	level    = "level"
	own      = "own"
)

// Names of sets of interfaces: of the links of attachments, and of those whose network has a level but none; of guarded ends; of ends that are apart.
const (
	links         = "links"
	isolatedLinks = "isolated-links"
	guarded       = "guarded"
	noHost        = "no-host" // also of both families of addresses: attachments that the host does not reach
	apart         = "apart"
)

// Names of further sets of the table of bridges: MACs of ends, and these with their addresses, which are those of ARP, too, and with
// what decides about most frames; targets of neighbour discovery, addresses of attachments to bridges that are not apart.
const (
	macs    = "macs"
	senders = "senders"
	frames  = "frames"
	targets = "targets"
	near    = "near"
)

var linkSet = []netfilter.KeyType{netfilter.LinkName}

// form are the tables without rules and attachments.
type form struct{ inet, bridge *table }

// forms makes them once: they are only read.
var forms = sync.OnceValue(func() form { return form{inet(), bridge()} })

// attachmentSets are the sets of attachments by their interfaces and addresses.
func (t *table) attachmentSets(sets, maps []string) {
	for _, v := range ips {
		key := []netfilter.KeyType{netfilter.LinkName, v.address}
		for _, name := range sets {
			t.set(netfilter.KeySet{Name: name + v.suffix, Key: key})
		}
		for _, name := range maps {
			t.set(netfilter.KeySet{Name: name + v.suffix, Key: key, IsMap: true})
		}
	}
}

// decisions are rules of chains that decide about flows, in this order.
type decisions struct {
	tracks, discovery             netfilter.Rule
	isNarrowed, isNarrowedTo      []netfilter.Rule
	isAllowed, isAllowedToAddress []netfilter.Rule
	isEgress                      []netfilter.Rule
	isPublished                   netfilter.Rule
	levels                        []netfilter.Rule
}

func (t *table) decisions() decisions {
	toAddress := []netfilter.Rule{rule("1: allowed to this address", jump(reached))}
	return decisions{
		tracks:             rule("established flows, and their errors", tracked(expr.CtKeySTATE, established|related), accept),
		discovery:          rule("neighbour discovery", discovery(), accept),
		isNarrowed:         bothIPs("0: narrowed egress of the source", func(v *ip) match { return netfilter.KeyVerdict(narrowedFrom+v.suffix, t.in, v.source()) }),
		isNarrowedTo:       bothIPs("0: narrowed ingress of the destination", func(v *ip) match { return netfilter.KeyVerdict(narrowedTo+v.suffix, t.out, v.destination()) }),
		isAllowedToAddress: toAddress,
		isAllowed:          append(bothIPs("1: allowed to this attachment", func(v *ip) match { return netfilter.KeyVerdict(allow+v.suffix, t.out, v.destination()) }), toAddress...),
		isEgress:           bothIPs("2: egress of the source", func(v *ip) match { return netfilter.KeyVerdict(egress+v.suffix, t.in, v.source()) }),
		isPublished:        rule("3: published ports", tracked(expr.CtKeySTATUS, translated), accept),
		levels:             bothIPs("5 to 7: level of the destination's network", func(v *ip) match { return netfilter.KeyVerdict(level+v.suffix, t.out, v.destination()) }),
	}
}

// discovery matches what neighbours of IPv6 find each other and their routers by.
func discovery() match {
	return slices.Concat(ip6.is(), protocol(expr.CmpOpEq, ip6.icmp), header(0, expr.CmpOpGte, routerSolicitation), header(0, expr.CmpOpLte, neighbourAdvertisement))
}

// inet makes the table of what is routed, without rules and attachments.
func inet() *table {
	t := newTable(netfilter.INet, "isolation of allocations, by allocnet")
	t.attachmentSets([]string{members, isolated, own, noHost}, []string{narrowedFrom, narrowedTo, allow, egress, level})
	for _, name := range []string{links, isolatedLinks, guarded, noHost, kindsSet} {
		t.set(netfilter.KeySet{Name: name, Key: linkSet})
	}
	d := t.decisions()
	plain := match{load(expr.PayloadBaseNetworkHeader, 0, 1), compare(expr.CmpOpEq, 0x45)} // most packets meet this alone
	t.base("forward", nftables.ChainHookForward, before, slices.Concat(
		[]netfilter.Rule{rule("established flows of IPv4, without options", plain, tracked(expr.CtKeySTATE, established|related), accept)},
		t.withOptions(t.in, t.out), []netfilter.Rule{d.tracks},
		d.isNarrowed, d.isNarrowedTo, d.isAllowed, d.isEgress, []netfilter.Rule{d.isPublished}, d.levels,
	)...)
	t.base("input", nftables.ChainHookInput, before, slices.Concat(
		[]netfilter.Rule{d.tracks, d.discovery}, d.isNarrowed, d.isAllowedToAddress, d.isEgress,
	)...)
	t.output(d)
	loopback := append(match{load(expr.PayloadBaseNetworkHeader, ip4.to, 1), compare(expr.CmpOpEq, 127)}, ip4.is()...)
	t.base("prerouting", nftables.ChainHookPrerouting, early,
		rule("the host's loopback", loopback, netfilter.KeyIn(links, true, inLink), drop),
		rule("ends of ptp", netfilter.LinkMatch(netfilter.InKind, expr.CmpOpEq, "veth"), goTo("ptp")),
	)
	t.chain("ptp", "what comes from links of the kind that ends of ptp are", t.guardIPs("what else an end of ptp may send")...)
	t.base("published", nftables.ChainHookPrerouting, translatedBefore, rule("to a neighbour that is apart",
		tracked(expr.CtKeySTATUS, translated), netfilter.KeyIn(links, true, inLink), match{&expr.Immediate{Register: netfilter.Register, Data: publishedBit},
			&expr.Meta{Key: expr.MetaKeyPRIORITY, SourceRegister: true, Register: netfilter.Register}}))
	t.levelChains()
	return t.seal()
}

// guardIPs adds the chain guard for what is no frame, and returns the rules that lead to it.
func (t *table) guardIPs(comment string) []netfilter.Rule {
	t.chain("guard", comment, rule("IPv4", ip4.is(), goTo("guard4")), rule("IPv6", ip6.is(), goTo("guard6")), rule("the rest", goTo(forged)))
	g := &guarding{is: (*ip).is, through: accept, own: func(v *ip) match { return netfilter.KeyIn(own+v.suffix, true, t.in, v.source()) }}
	t.guardChains(g)
	t.forgedChain()
	return t.guardRules(g)
}

// levelChains adds the chains that lead to a drop, and that of rules allow to addresses, which is empty.
func (t *table) levelChains() {
	t.chain(reached, "1: allowed to addresses")
	t.deniedChains()
	t.chain("strict", "5 to 7: to networks of the level strict", rule("5 to 7: strict", deniedFor(isolation.ByStrict)))
	t.chain("none", "5: to networks of the level none", append(
		bothIPs("5: from an isolated network", func(v *ip) match {
			return slices.Concat(netfilter.KeyIn(isolated+v.suffix, true, t.in, v.source()), deniedFor(isolation.ByNetwork))
		}),
		rule("5: from an isolated network, with another address", netfilter.KeyIn(isolatedLinks, true, t.in), deniedFor(isolation.ByNetwork)),
	)...)
}

// output adds the chain of what the host sends.
func (t *table) output(d decisions) {
	toLinks := netfilter.KeyIn(links, true, outLink)
	t.base("output", nftables.ChainHookOutput, before,
		rule("no redirects to neighbours that are apart", ip4.is(), protocol(expr.CmpOpEq, ip4.icmp), header(0, expr.CmpOpEq, 5), toLinks, drop),
		rule("no redirects to neighbours that are apart", ip6.is(), protocol(expr.CmpOpEq, ip6.icmp), header(0, expr.CmpOpEq, redirect), toLinks, drop),
		rule("4: from the host", netfilter.KeyIn(noHost, true, outLink), goTo("from-host")),
	)
	t.chain("from-host", "4: to attachments that the host does not reach", slices.Concat(
		[]netfilter.Rule{d.tracks, d.discovery}, d.isAllowed, []netfilter.Rule{d.isPublished},
		bothIPs("4: fromHost is false", func(v *ip) match {
			return slices.Concat(netfilter.KeyIn(noHost+v.suffix, true, outLink, v.destination()), deniedFor(isolation.ByHost))
		}),
	)...)
}

// bothIPs are a rule for each version of IP.
func bothIPs(comment string, parts func(v *ip) match) (rules []netfilter.Rule) {
	for _, v := range ips {
		rules = append(rules, rule(comment, v.is(), parts(v)))
	}
	return rules
}

// withOptions drops packets of IPv4 with options: one of them has the kernel send a packet on to another destination than this chain sees.
func (t *table) withOptions(of ...netfilter.KeyPart) []netfilter.Rule {
	var drops []netfilter.Rule
	for _, link := range of {
		drops = append(drops, rule("options of IPv4", netfilter.KeyIn(links, true, link), drop))
	}
	t.chain("options", "options of IPv4", drops...)
	return []netfilter.Rule{rule("options of IPv4", ip4.is(), match{load(expr.PayloadBaseNetworkHeader, 0, 1)}, differsIn(0x0f, 5), jump("options"))}
}

// reached is the chain of rules allow that select their destination by its address.
const reached = "reached"

// bridge makes the table of what comes from ports of bridges, without attachments.
func bridge() *table {
	t := newTable(netfilter.Bridge, "who an allocation is, by allocnet")
	for _, name := range []string{guarded, apart} {
		t.set(netfilter.KeySet{Name: name, Key: linkSet})
	}
	for _, v := range ips {
		t.set(netfilter.KeySet{Name: senders + v.suffix, Key: []netfilter.KeyType{netfilter.LinkName, netfilter.MAC, v.address}})
	}
	t.set(netfilter.KeySet{Name: targets, Key: []netfilter.KeyType{netfilter.LinkName, netfilter.TargetAddress6}})
	t.set(netfilter.KeySet{Name: macs, Key: []netfilter.KeyType{netfilter.LinkName, netfilter.MAC}})
	t.set(netfilter.KeySet{Name: near, Key: []netfilter.KeyType{netfilter.Address4}})
	isDirect := meta(expr.MetaKeyPRIORITY, expr.CmpOpNeq, publishedBit...)
	isGuarded, isApart := netfilter.KeyIn(guarded, true, inLink), netfilter.KeyIn(apart, true, inLink)
	g := &guarding{is: (*ip).isFrame, isTarget: netfilter.KeyIn(targets, true, inLink, target), through: goTo("routed"),
		own: func(v *ip) match { return netfilter.KeyIn(senders+v.suffix, true, inLink, sourceMAC, v.source()) },
	}
	t.base("prerouting", nftables.ChainHookPrerouting, early, slices.Concat(t.mostFrames(), t.guardRules(g), []netfilter.Rule{rule("other ends", g.through)})...)
	toBridge := match{load(expr.PayloadBaseLLHeader, 0, 6),
		&expr.Bitwise{SourceRegister: netfilter.Register, DestRegister: netfilter.Register, Len: 6, Mask: []byte{255, 255, 255, 255, 255, 0xf0}, Xor: make([]byte, 6)},
		compare(expr.CmpOpEq, 1, 0x80, 0xc2, 0, 0, 0)}
	fromNone := match{load(expr.PayloadBaseNetworkHeader, ip6.from, 16), compare(expr.CmpOpEq, make([]byte, 16)...)}
	t.base("input", nftables.ChainHookInput, early,
		rule("frames for the bridge itself", meta(expr.MetaKeyPKTTYPE, expr.CmpOpEq, unix.PACKET_MULTICAST), toBridge, isGuarded, goTo(forged)), // of spanning tree; they pass by prerouting
		rule("the host would answer for the neighbour itself", meta(expr.MetaKeyPROTOCOL, expr.CmpOpEq, 0x86, 0xdd), protocol(expr.CmpOpEq, ip6.icmp), header(0, expr.CmpOpEq, neighbourSolicitation), fromNone, isApart, drop),
	)
	t.base("forward", nftables.ChainHookForward, early,
		rule("from a neighbour that is apart", isApart, isDirect, drop),
		rule("to a neighbour that is apart", netfilter.KeyIn(apart, true, outLink), isDirect, drop))
	t.base("output", nftables.ChainHookOutput, early,
		rule("neighbours that are not apart answer for themselves", isEtherType(arpType),
			match{load(expr.PayloadBaseNetworkHeader, 6, 2), compare(expr.CmpOpEq, 0, 2)}, netfilter.KeyIn(apart, false, outLink), netfilter.KeyIn(near, true, arpSource), drop))
	t.chain("guard", "what an end may send",
		rule("another MAC", netfilter.KeyIn(macs, false, inLink, sourceMAC), goTo(forged)),
		rule("ARP", isEtherType(arpType), goTo("guard-arp")),
		rule("IPv4", ip4.isFrame(), goTo("guard4")), rule("IPv6", ip6.isFrame(), goTo("guard6")),
		rule("other protocols, and tagged frames", goTo(forged)))
	ethernet := match{load(expr.PayloadBaseNetworkHeader, 0, 6), compare(expr.CmpOpEq, 0, 1, 8, 0, 6, 4)}
	probe := match{load(expr.PayloadBaseNetworkHeader, 14, 4), compare(expr.CmpOpEq, 0, 0, 0, 0)}
	t.chain("guard-arp", "what ARP an end may send",
		rule("of its own", isEtherType(arpType), ethernet, netfilter.KeyIn(senders+ip4.suffix, true, inLink, arpMAC, arpSource), accept),
		rule("probes for its own", isEtherType(arpType), ethernet, probe, netfilter.KeyIn(senders+ip4.suffix, true, inLink, arpMAC, arpTarget), accept),
		rule("forged ARP", goTo(forged)))
	t.forgedChain()
	t.neighbourChain()
	t.guardChains(g)
	return t.seal()
}
