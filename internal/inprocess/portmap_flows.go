// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"net"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/netns"
)

// forgetFlows deletes the UDP flows to the published ports of the host: as long as they exist, they go
// where they went before the rules were made.
func (conf *portmapConfig) forgetFlows(v4 bool) error {
	var family netlink.InetFamily = unix.AF_INET6
	if v4 {
		family = unix.AF_INET
	}
	if !slices.ContainsFunc(conf.RuntimeConfig.PortMappings, portMapping.isUDP) {
		return nil
	}
	addresses, err := addressesOf(nil, int(family))
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

func (m portMapping) isUDP() bool { return strings.EqualFold(m.Protocol, "udp") }

// publishedFlows matches UDP flows to published ports of a host with its own addresses. Those to the same port of
// other hosts are the flows of other allocations.
type publishedFlows struct {
	mappings []portMapping
	own      []net.IP
}

// MatchConntrackFlow tells whether the flow's first packet would be translated.
func (p publishedFlows) MatchConntrackFlow(flow *netlink.ConntrackFlow) bool {
	to := flow.Forward
	if to.Protocol != unix.IPPROTO_UDP {
		return false
	}
	return slices.ContainsFunc(p.mappings, func(m portMapping) bool {
		switch {
		case !m.isUDP() || uint16(m.HostPort) != to.DstPort:
			return false
		case m.bound():
			return net.ParseIP(m.HostIP).Equal(to.DstIP)
		}
		return to.DstIP.IsLoopback() || slices.ContainsFunc(p.own, to.DstIP.Equal)
	})
}
