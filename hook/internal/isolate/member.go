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

// member returns an attachment as the host knows it; ok is false if it has no end on the host that could keep it apart, or none yet.
func member(of state.Allocation, a state.Attachment, levels networkLevels) (m filter.Member, ok bool) {
	r, ok := recordedOf(of, a)
	return r.at(levels), ok
}

// recordedOf is member without the level that its network has by now.
func recordedOf(of state.Allocation, a state.Attachment) (r recordedMember, ok bool) {
	i, ok := place(a)
	if !ok {
		return r, false
	}
	r = recordedMember{allocation: of.ID, iface: a.Interface, level: recordedLevel(a), Member: filter.Member{
		Member: isolation.Member{
			ID: a.ContainerID, Network: a.Network,
			Namespace: of.Identity.Namespace, Job: of.Identity.Job, Group: of.Identity.Group,
			Addresses: append(slices.Clip(i.Addresses), ownAdvertised(a, i.MAC)...), Link: i.Bridge,
		},
		End: i.End, Bridge: i.Bridge,
	}}
	if r.Bridge == "" {
		r.Link = r.End
	}
	r.Ingress, r.Egress = left(i.Narrowing.Ingress, isolation.ParseIngress), left(i.Narrowing.Egress, isolation.ParseEgress)
	if i.MAC == "" { // nothing passes from its end
		return r, true
	}
	var err error
	r.MAC, err = net.ParseMAC(i.MAC)
	return r, err == nil
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
