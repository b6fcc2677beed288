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

// recordedMember is an attachment as its record has it, without the level that its network has by now.
type recordedMember struct {
	filter.Member

	allocation state.Allocation
	iface      string
	level      networkLevel
}

// recordedOf returns an attachment; ok is false if nothing can keep it apart, or not yet. One without an end on the host is known from before ADD
// on.
func recordedOf(of state.Allocation, a state.Attachment) (r recordedMember, ok bool) {
	var i state.Isolation
	if hasEnd(a) {
		i, ok = place(a)
	} else {
		i, ok = placeInside(a), true
	}
	if !ok {
		return r, false
	}
	r = recordedMember{allocation: of, iface: a.Interface, level: recordedLevel(a)}
	r.Member, ok = memberAt(of, a, i)
	return r, ok
}

// at is the attachment with the level that its network has; ok is false if that keeps it apart nowhere.
func (r *recordedMember) at(levels networkLevels) (m filter.Member, ok bool) {
	m, level := r.Member, levels.of(r.Network, r.level)
	m.Level, m.NoHost, m.Antispoof = level.Level, level.NoHost, level.Antispoof
	return m, !m.Inside || level.Inside
}

// member returns an attachment with the level that its network has; ok is false if nothing keeps it apart.
func member(of state.Allocation, a state.Attachment, levels networkLevels) (m filter.Member, ok bool) {
	r, ok := recordedOf(of, a)
	if !ok {
		return m, false
	}
	return r.at(levels)
}

func memberAt(of state.Allocation, a state.Attachment, i state.Isolation) (m filter.Member, ok bool) {
	m = filter.Member{
		Member: isolation.Member{
			ID: a.ContainerID, Network: a.Network,
			Namespace: of.Identity.Namespace, Job: of.Identity.Job, Group: of.Identity.Group,
			Addresses: append(slices.Clip(i.Addresses), ownAdvertised(a, i.MAC)...), Link: i.Bridge, Inside: i.Inside,
		},
		End: i.End, Bridge: i.Bridge,
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
