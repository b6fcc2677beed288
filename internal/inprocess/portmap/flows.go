// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package portmap

import (
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/inprocess/flows"
	"github.com/allocnet/allocnet/internal/inprocess/links"
	"github.com/allocnet/allocnet/internal/netns"
)

// forgetFlows deletes the UDP flows to the published ports of the host: as long as they exist, they go
// where they went before the rules were made.
func (conf *config) forgetFlows(v4 bool) error {
	var family netlink.InetFamily = unix.AF_INET6
	if v4 {
		family = unix.AF_INET
	}
	if !slices.ContainsFunc(conf.RuntimeConfig.PortMappings, mapping.isUDP) {
		return nil
	}
	addresses, err := links.Addresses(nil, int(family))
	if err != nil {
		return err
	}
	var own []net.IP
	for _, address := range addresses {
		own = append(own, address.IP)
	}
	_, err = netns.Whole(func() (uint, error) {
		return netlink.ConntrackDeleteFilters(netlink.ConntrackTable, family, publishedFlows{conf.RuntimeConfig.PortMappings, own})
	})
	return err
}

func (m mapping) isUDP() bool { return strings.EqualFold(m.Protocol, "udp") }

// publishedFlows matches UDP flows to published ports of a host with its own addresses. Those to the same port of
// other hosts are the flows of other allocations.
type publishedFlows struct {
	mappings []mapping
	own      []net.IP
}

// MatchConntrackFlow tells whether the flow's first packet would be translated.
func (p publishedFlows) MatchConntrackFlow(flow *netlink.ConntrackFlow) bool {
	to := flow.Forward
	if to.Protocol != unix.IPPROTO_UDP {
		return false
	}
	return slices.ContainsFunc(p.mappings, func(m mapping) bool {
		switch {
		case !m.isUDP() || !m.has(to.DstPort):
			return false
		case m.bound():
			return net.ParseIP(m.HostIP).Equal(to.DstIP)
		}
		return to.DstIP.IsLoopback() || slices.ContainsFunc(p.own, to.DstIP.Equal)
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
func (p publication) Wants(f flows.Flow, isLocal func(netip.Addr) bool) bool {
	to := f.Original.Destination
	if f.Reply.Source != to || f.Reply.SourcePort != f.Original.DestinationPort || to.Is4() != links.IsIPv4(p.address) {
		return false
	}
	return slices.ContainsFunc(p.mappings, func(m mapping) bool {
		return nftablesProtocols[strings.ToLower(m.Protocol)] == f.Protocol && m.has(f.Original.DestinationPort) &&
			m.applies(p.address) && (!m.bound() || net.ParseIP(m.HostIP).Equal(to.AsSlice()))
	}) && isLocal(to)
}
