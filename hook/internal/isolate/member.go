// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package isolate

import (
	"net"
	"net/netip"
	"slices"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/isolation"
	"github.com/allocnet/allocnet/isolation/filter"
	"github.com/allocnet/allocnet/state"
)

// member returns an attachment as the host knows it; ok is false if it has no end on the host that could keep it apart, or none yet. What is
// kept apart in its namespace is known from before ADD on.
func member(of state.Allocation, a state.Attachment, levels networkLevels) (m filter.Member, ok bool) {
	level := levels.of(a)
	isInside := level.Inside && !hasEnd(a)
	i, ok := place(a)
	if isInside {
		i, ok = placeInside(a), true
	}
	if !ok {
		return m, false
	}
	m = filter.Member{
		Member: isolation.Member{
			ID: a.ContainerID, Network: a.Network, Level: level.Level, NoHost: level.NoHost,
			Namespace: of.Identity.Namespace, Job: of.Identity.Job, Group: of.Identity.Group,
			Addresses: append(slices.Clip(i.Addresses), ownAdvertised(a, i.MAC)...), Link: i.Bridge, Inside: isInside,
		},
		End: i.End, Bridge: i.Bridge, Antispoof: level.Antispoof,
	}
	if m.Bridge == "" && !m.Inside {
		m.Link = m.End
	}
	m.Ingress, m.Egress = left(i.Narrowing.Ingress, isolation.ParseIngress), left(i.Narrowing.Egress, isolation.ParseEgress)
	if i.MAC == "" { // nothing passes from its end
		return m, true
	}
	var err error
	m.MAC, err = net.ParseMAC(i.MAC)
	return m, err == nil
}

// left returns what the job leaves by a text on record: none if it cannot be read, as one that a later program has written.
func left(text string, parse func(string) (isolation.Narrowing, error)) isolation.Narrowing {
	if text == "" {
		return nil
	}
	n, err := parse(text)
	if err != nil {
		return isolation.Narrowing{}
	}
	return n
}

// place returns where an attachment is: as it was recorded before the host got something for it, or as its plugins have reported.
func place(a state.Attachment) (state.Isolation, bool) {
	if a.Isolation != nil {
		return *a.Isolation, a.Isolation.End != ""
	}
	return reported(a)
}

// hasEnd tells whether the interface of an attachment has an end on the host.
func hasEnd(a state.Attachment) bool {
	if a.Isolation != nil {
		return !a.Isolation.Inside
	}
	list, err := onrecord.List(a)
	return err != nil || slices.ContainsFunc(cniconf.Chain(list), cniconf.Plugin.HasEnd)
}

// placeInside returns the interface of an attachment inside, with its addresses when they are known: from the end of ADD on.
func placeInside(a state.Attachment) state.Isolation {
	i := state.Isolation{Inside: true, End: a.Interface}
	if a.Isolation != nil {
		i.Narrowing = a.Isolation.Narrowing
		if a.Isolation.MAC == "" {
			return i
		}
		i.MAC, i.Addresses = a.Isolation.MAC, a.Isolation.Addresses
	}
	if mac, addresses := inside(a); mac != "" { // a lease of DHCP may be another one by now
		i.MAC, i.Addresses = mac, addresses
	}
	return i
}

// reported returns where the plugins of an attachment have put it, if the host can know it by its addresses.
func reported(a state.Attachment) (i state.Isolation, ok bool) {
	if a.Result == nil {
		return i, false
	}
	list, err := onrecord.List(a)
	if err != nil {
		return i, false
	}
	chain := cniconf.Chain(list)
	at := slices.IndexFunc(chain, cniconf.Plugin.HasEnd)
	end, err := onrecord.HostEnd(a, list)
	if err != nil || end == nil || at < 0 {
		return i, false
	}
	i.End, i.Bridge = end.Name, chain[at].Bridge
	if i.MAC, i.Addresses = inside(a); i.MAC == "" {
		return i, false
	}
	return i, true
}

// inside returns the MAC and the addresses of an attachment's interface, as its plugins have reported them.
func inside(a state.Attachment) (mac string, addresses []netip.Addr) {
	result, err := onrecord.ParseResult(a.Result)
	if err != nil {
		return "", nil
	}
	for _, reported := range result.Interfaces {
		if reported.Sandbox != "" && reported.Name == a.Interface {
			mac = reported.Mac
		}
	}
	for _, address := range onrecord.InterfaceAddresses(result, a.Interface) {
		addresses = append(addresses, address.Addr())
	}
	return mac, addresses
}
