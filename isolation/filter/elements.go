// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package filter

import (
	"net"
	"net/netip"

	"github.com/google/nftables/expr"

	"github.com/allocnet/allocnet/internal/netfilter"
	"github.com/allocnet/allocnet/isolation"
)

// placed is an element, and where it is.
type placed struct {
	family netfilter.Family
	set    string
	netfilter.Element
	// shared is whether other attachments may have it, too: a bridge.
	shared bool
}

// elements are those of an attachment.
type elements struct {
	*Member
	all []placed
}

func (e *elements) add(family netfilter.Family, set string, element netfilter.Element, parts ...[]byte) {
	element.Key = netfilter.Key(parts...)
	if element.Comment == "" {
		element.Comment = ownerText(e.ID)
	}
	e.all = append(e.all, placed{family, set, element, false})
}

func (e *elements) addLink(set string) {
	e.add(netfilter.INet, set, netfilter.Element{}, netfilter.LinkKey(e.Link))
	if last := &e.all[len(e.all)-1]; e.Bridge != "" {
		last.shared, last.Comment = true, ""
	}
}

// addLinks adds what is for all that comes by its interface, with whatever address.
func (e *elements) addLinks() {
	e.addLink(links)
	if e.isIsolated() {
		e.addLink(isolatedLinks)
	}
	if e.Level == isolation.Network {
		e.addLink(networkSets(e.Network) + "-links")
	}
}

// isIsolated is whether its network has a level but none.
func (m *Member) isIsolated() bool { return m.Level != isolation.None && m.Level != "" }

// isApart is whether the bridge forwards nothing from it or to it.
func (m *Member) isApart(k *kind) bool {
	return m.End != "" && m.Bridge != "" && (m.Level == isolation.Strict || m.IsNarrowed() || k.egress.chain != "")
}

func suffixOf(a netip.Addr) string {
	if a.Is4() {
		return ip4.suffix
	}
	return ip6.suffix
}

// elementsOf returns those that an attachment has to have, as far as it is known. gateway is the MAC of its bridge.
func elementsOf(m *Member, k *kind, gateway net.HardwareAddr) []placed {
	e := &elements{Member: m}
	if m.Antispoof && m.End != "" {
		e.guard(k)
	}
	if m.isApart(k) {
		e.add(netfilter.Bridge, apart, netfilter.Element{Comment: ownerText(m.ID) + onBridge + m.Bridge}, netfilter.LinkKey(m.End))
	}
	e.neighbour(k, gateway)
	if m.link() == "" {
		return e.all
	}
	if !m.isRemote() {
		e.addLinks()
	}
	if m.NoHost {
		e.addLink(noHost)
	}
	for _, a := range m.sources() {
		e.addAddress(k, a)
	}
	return e.all
}

// addAddress adds the elements of the table inet for an address. That of the link is one of a source only: nothing is routed to it.
func (e *elements) addAddress(k *kind, a netip.Addr) {
	v, key := suffixOf(a), [][]byte{netfilter.LinkKey(e.link()), a.AsSlice()}
	if chain := k.egress.chain; chain != "" {
		e.add(netfilter.INet, egress+v, netfilter.Element{Verdict: expr.VerdictJump, Chain: chain}, key...)
	}
	e.narrow(narrowedFrom, e.Egress, v, key)
	if e.NoHost {
		e.add(netfilter.INet, noHost+v, netfilter.Element{}, key...)
	}
	if a.IsLinkLocalUnicast() && a.Is6() {
		return
	}
	e.narrow(narrowedTo, e.Ingress, v, key)
	e.add(netfilter.INet, members+v, netfilter.Element{}, key...)
	if !e.isRemote() { // what its host drops is counted there
		e.add(netfilter.INet, denied+v, netfilter.Element{}, key...)
	}
	if e.isIsolated() {
		e.add(netfilter.INet, isolated+v, netfilter.Element{}, key...)
	}
	if e.Level == isolation.Network {
		e.add(netfilter.INet, networkSets(e.Network)+"-"+v, netfilter.Element{}, key...)
	}
	e.add(netfilter.INet, level+v, verdictFor(&e.Member.Member), key...)
	if chain := k.allow.chain; chain != "" {
		e.add(netfilter.INet, allow+v, netfilter.Element{Verdict: expr.VerdictJump, Chain: chain}, key...)
	}
	for _, set := range k.sets {
		e.add(netfilter.INet, set+v, netfilter.Element{}, key...)
	}
	if a.Is4() && e.Bridge != "" && !e.isApart(k) {
		e.add(netfilter.Bridge, near, netfilter.Element{}, a.AsSlice())
	}
}

// guard adds what the end may send.
func (e *elements) guard(k *kind) {
	end, family, chain := netfilter.LinkKey(e.End), netfilter.INet, fromOthers
	if e.isApart(k) {
		chain = fromApart
	}
	if e.Bridge != "" {
		family = netfilter.Bridge
	}
	e.add(family, guarded, netfilter.Element{}, end)
	e.add(family, forged, netfilter.Element{}, end)
	if e.Bridge != "" {
		if len(e.MAC) != macLength { // it is recorded, and not made yet: nothing comes from it
			return
		}
		e.add(family, macs, netfilter.Element{}, end, e.MAC)
	}
	for _, a := range e.sources() {
		if e.Bridge == "" {
			e.add(family, own+suffixOf(a), netfilter.Element{}, end, a.AsSlice())
			continue
		}
		e.add(family, senders+suffixOf(a), netfilter.Element{}, end, e.MAC, a.AsSlice())
		e.add(family, frames+suffixOf(a), netfilter.Element{Verdict: expr.VerdictGoto, Chain: chain}, end, e.MAC, a.AsSlice())
		if a.Is6() {
			e.add(family, targets, netfilter.Element{}, end, a.AsSlice())
		}
	}
}

// commonSets are those of which the keys have no link. Two attachments have the same element there if they have a MAC or an address on two bridges.
var commonSets = []string{neighbours, neighboursApart, near}

// common are the elements that an attachment may have in these.
func (m *Member) common() []placed {
	e := &elements{Member: m}
	if m.Bridge == "" {
		return nil
	}
	if len(m.MAC) == macLength {
		e.add(netfilter.Bridge, neighbours, netfilter.Element{}, m.MAC)
		e.add(netfilter.Bridge, neighboursApart, netfilter.Element{}, m.MAC)
	}
	for _, a := range m.Addresses {
		if a = a.Unmap(); a.Is4() {
			e.add(netfilter.Bridge, near, netfilter.Element{}, a.AsSlice())
		}
	}
	return e.all
}
