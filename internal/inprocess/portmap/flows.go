// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package portmap

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/inprocess/flows"
	"github.com/allocnet/allocnet/internal/inprocess/links"
	"github.com/allocnet/allocnet/internal/netfilter"
)

// forgetFlows deletes the UDP flows to the published ports of the host: as long as they exist, they go
// where they went before the rules were made.
func (conf *config) forgetFlows(ctx context.Context, v4 bool) error {
	family := netlink.FAMILY_V6
	if v4 {
		family = netlink.FAMILY_V4
	}
	if !slices.ContainsFunc(conf.RuntimeConfig.PortMappings, mapping.isUDP) {
		return nil
	}
	addresses, err := links.Addresses(nil, family)
	if err != nil {
		return err
	}
	published := publishedFlows{mappings: conf.RuntimeConfig.PortMappings}
	for _, address := range addresses {
		published.own = append(published.own, address.IP)
	}
	return netfilter.ForgetEach(ctx, func(f netfilter.Flow) bool { return f.Original.Destination.Is4() == v4 && published.has(f) })
}

func (m mapping) isUDP() bool { return strings.EqualFold(m.Protocol, "udp") }

// publishedFlows matches UDP flows to published ports of a host with its own addresses. Those to the same port of
// other hosts are the flows of other allocations.
type publishedFlows struct {
	mappings []mapping
	own      []net.IP
}

// has tells whether the flow's first packet would be translated.
func (p publishedFlows) has(f netfilter.Flow) bool {
	to := net.IP(f.Original.Destination.AsSlice())
	return f.Protocol == unix.IPPROTO_UDP && slices.ContainsFunc(p.mappings, func(m mapping) bool {
		switch {
		case !m.isUDP() || !m.has(f.Original.DestinationPort):
			return false
		case m.bound():
			return net.ParseIP(m.HostIP).Equal(to)
		}
		return to.IsLoopback() || slices.ContainsFunc(p.own, to.Equal)
	})
}

// publication are the ports that are published for an address.
type publication struct {
	address  net.IP
	mappings []mapping
}

// Keys are those of flows to the published ports.
func (p publication) Keys() []flows.Key {
	var keys []flows.Key
	for _, m := range p.mappings {
		for port := m.HostPort; port <= m.last(); port++ {
			keys = append(keys, flows.Key{Port: uint16(port), Protocol: nftablesProtocols[strings.ToLower(m.Protocol)]})
		}
	}
	return keys
}

// Wants tells whether a flow to a published port has reached the host itself. One of UDP may have
// been answered by a program there.
func (p publication) Wants(f netfilter.Flow, isLocal func(netip.Addr) bool) bool {
	to := f.Original.Destination
	if f.Reply.Source != to || f.Reply.SourcePort != f.Original.DestinationPort || to.Is4() != links.IsIPv4(p.address) {
		return false
	}
	return slices.ContainsFunc(p.mappings, func(m mapping) bool {
		return nftablesProtocols[strings.ToLower(m.Protocol)] == f.Protocol && m.has(f.Original.DestinationPort) &&
			m.applies(p.address) && (!m.bound() || net.ParseIP(m.HostIP).Equal(to.AsSlice()))
	}) && isLocal(to)
}
