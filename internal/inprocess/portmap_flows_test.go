// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"net"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// TestPublishedFlows: only flows to the host's own addresses are those of a published port.
func TestPublishedFlows(t *testing.T) {
	own := []net.IP{net.ParseIP("192.0.2.2").To4(), net.ParseIP("2001:db8::2")}
	all := portMapping{HostPort: 443, Protocol: "udp"}
	bound := portMapping{HostPort: 443, Protocol: "UDP", HostIP: "192.0.2.2"}
	for name, test := range map[string]struct {
		mapping  portMapping
		to       string
		port     uint16
		protocol uint8
		want     bool
	}{
		"own":                         {all, "192.0.2.2", 443, unix.IPPROTO_UDP, true},
		"own, IPv6":                   {all, "2001:db8::2", 443, unix.IPPROTO_UDP, true},
		"loopback":                    {all, "127.0.0.7", 443, unix.IPPROTO_UDP, true},
		"another host":                {all, "192.0.2.1", 443, unix.IPPROTO_UDP, false},
		"another host, IPv6":          {all, "2001:db8::1", 443, unix.IPPROTO_UDP, false},
		"another port":                {all, "192.0.2.2", 444, unix.IPPROTO_UDP, false},
		"TCP":                         {all, "192.0.2.2", 443, unix.IPPROTO_TCP, false},
		"of a mapping of TCP":         {portMapping{HostPort: 443, Protocol: "tcp"}, "192.0.2.2", 443, unix.IPPROTO_UDP, false},
		"bound":                       {bound, "192.0.2.2", 443, unix.IPPROTO_UDP, true},
		"bound, to another address":   {bound, "127.0.0.1", 443, unix.IPPROTO_UDP, false},
		"all addresses, another host": {portMapping{HostPort: 443, Protocol: "udp", HostIP: "0.0.0.0"}, "198.51.100.1", 443, unix.IPPROTO_UDP, false},
		"all addresses":               {portMapping{HostPort: 443, Protocol: "udp", HostIP: "0.0.0.0"}, "192.0.2.2", 443, unix.IPPROTO_UDP, true},
	} {
		flow := &netlink.ConntrackFlow{Forward: netlink.IPTuple{DstIP: net.ParseIP(test.to), DstPort: test.port, Protocol: test.protocol}}
		if got := (publishedFlows{[]portMapping{test.mapping}, own}).MatchConntrackFlow(flow); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
