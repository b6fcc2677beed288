// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package route

import (
	"fmt"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/netns"
)

func (s *socket) listRoutes(to *snapshot, _ string) error {
	main := &netlink.Route{Table: unix.RT_TABLE_MAIN}
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		list, err := netns.Whole(func() ([]netlink.Route, error) {
			return s.RouteListFiltered(family, main, netlink.RT_FILTER_TABLE)
		})
		if isOff(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("list routes: %w", err)
		}
		for _, r := range list {
			to.addRoute(r, s.names)
		}
	}
	s.present = map[place]entry{}
	for _, e := range slices.Backward(to.routes) {
		if e.ours {
			s.present[e.place()] = e
		}
	}
	return nil
}

func (to *snapshot) addRoute(r netlink.Route, names map[int]string) {
	for _, e := range entriesOf(r, names) {
		to.routes = append(to.routes, e)
		if e.prefix.Bits() == 0 && e.via.IsValid() {
			to.gateways = append(to.gateways, e.via)
		}
	}
}

// entriesOf returns each next hop of a route as one of its own. IPv6 shows routes with one prefix and metric
// as one route with the protocol of its first next hop. We make only the first route: what is beside it
// is another program's. IPv4 has one protocol for all next hops: such a route of ours was changed.
func entriesOf(r netlink.Route, names map[int]string) []entry {
	if len(r.MultiPath) == 0 || r.Family == netlink.FAMILY_V4 && r.Protocol == Protocol {
		return []entry{entryOf(r, names)}
	}
	all := make([]entry, 0, len(r.MultiPath))
	for i, h := range r.MultiPath {
		one := r
		one.MultiPath, one.LinkIndex, one.Gw, one.Via = nil, h.LinkIndex, h.Gw, h.Via
		e := entryOf(one, names)
		e.ours = e.ours && i == 0
		all = append(all, e)
	}
	return all
}

func entryOf(r netlink.Route, names map[int]string) entry {
	e := entry{
		prefix: netns.Destination(r, r.Family), via: addressOf(r.Gw), device: names[r.LinkIndex], metric: r.Priority,
		onlink: r.Flags&int(netlink.FLAG_ONLINK) != 0, unreachable: r.Type == unix.RTN_UNREACHABLE,
		ours: r.Protocol == Protocol, source: addressOf(r.Src),
		odd: len(r.MultiPath) > 0 || r.Encap != nil || r.Tos != 0 || r.Type != unix.RTN_UNICAST && r.Type != unix.RTN_UNREACHABLE,
	}
	if v, ok := r.Via.(*netlink.Via); ok {
		e.via = addressOf(v.Addr)
	}
	if r.Family == netlink.FAMILY_V4 {
		e.scope = int(r.Scope)
	}
	if e.unreachable {
		e.device = "" // IPv6 says lo
	}
	return e
}

func (e entry) route(indexes map[string]int) (*netlink.Route, error) {
	r := &netlink.Route{
		Dst: netns.IPNet(e.prefix), Table: unix.RT_TABLE_MAIN,
		Protocol: Protocol, Priority: e.metric, Scope: netlink.Scope(e.scope), Type: unix.RTN_UNICAST,
	}
	if e.unreachable {
		r.Type = unix.RTN_UNREACHABLE
		return r, nil
	}
	if e.device != "" {
		index, ok := indexes[e.device]
		if !ok {
			return nil, fmt.Errorf("interface %q: %w", e.device, unix.ENODEV)
		}
		r.LinkIndex = index
	}
	if e.source.IsValid() {
		r.Src = e.source.AsSlice()
	}
	if e.onlink {
		r.Flags = int(netlink.FLAG_ONLINK)
	}
	switch {
	case e.via.IsValid() && e.via.Is6() && e.prefix.Addr().Is4():
		r.Via = &netlink.Via{AddrFamily: netlink.FAMILY_V6, Addr: e.via.AsSlice()}
	case e.via.IsValid():
		r.Gw = e.via.AsSlice()
	}
	return r, nil
}
