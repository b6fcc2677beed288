// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package portmap

import (
	"net"
	"net/netip"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/inprocess/flows/flowstest"
	"github.com/allocnet/allocnet/internal/netfilter"
)

// TestPublishedFlows: only flows to the host's own addresses are those of a published port.
func TestPublishedFlows(t *testing.T) {
	own := []net.IP{net.ParseIP("192.0.2.2").To4(), net.ParseIP("2001:db8::2")}
	all := mapping{HostPort: 443, Protocol: "udp"}
	bound := mapping{HostPort: 443, Protocol: "UDP", HostIP: "192.0.2.2"}
	for name, test := range map[string]struct {
		mapping  mapping
		to       string
		port     uint16
		protocol uint8
		want     bool
	}{
		"own":                         {all, "192.0.2.2", 443, unix.IPPROTO_UDP, true},
		"of a range":                  {mapping{HostPort: 400, LastHostPort: 500, Protocol: "udp"}, "192.0.2.2", 500, unix.IPPROTO_UDP, true},
		"beyond a range":              {mapping{HostPort: 400, LastHostPort: 500, Protocol: "udp"}, "192.0.2.2", 501, unix.IPPROTO_UDP, false},
		"own, IPv6":                   {all, "2001:db8::2", 443, unix.IPPROTO_UDP, true},
		"loopback":                    {all, "127.0.0.7", 443, unix.IPPROTO_UDP, true},
		"another host":                {all, "192.0.2.1", 443, unix.IPPROTO_UDP, false},
		"another host, IPv6":          {all, "2001:db8::1", 443, unix.IPPROTO_UDP, false},
		"another port":                {all, "192.0.2.2", 444, unix.IPPROTO_UDP, false},
		"TCP":                         {all, "192.0.2.2", 443, unix.IPPROTO_TCP, false},
		"of a mapping of TCP":         {mapping{HostPort: 443, Protocol: "tcp"}, "192.0.2.2", 443, unix.IPPROTO_UDP, false},
		"bound":                       {bound, "192.0.2.2", 443, unix.IPPROTO_UDP, true},
		"bound, to another address":   {bound, "127.0.0.1", 443, unix.IPPROTO_UDP, false},
		"all addresses, another host": {mapping{HostPort: 443, Protocol: "udp", HostIP: "0.0.0.0"}, "198.51.100.1", 443, unix.IPPROTO_UDP, false},
		"all addresses":               {mapping{HostPort: 443, Protocol: "udp", HostIP: "0.0.0.0"}, "192.0.2.2", 443, unix.IPPROTO_UDP, true},
	} {
		flow := netfilter.Flow{Original: netfilter.Direction{Destination: netip.MustParseAddr(test.to), DestinationPort: test.port}, Protocol: test.protocol}
		if got := (publishedFlows{[]mapping{test.mapping}, own}).has(flow); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestFlowsToPublishedPorts: those that have reached the host itself.
func TestFlowsToPublishedPorts(t *testing.T) {
	mappings := []mapping{
		{HostPort: 8080, ContainerPort: 80, Protocol: "tcp"}, {HostPort: 8053, ContainerPort: 53, Protocol: "UDP"},
		{HostPort: 8081, ContainerPort: 80, Protocol: "tcp", HostIP: "192.0.2.9"},
	}
	inward := func(protocol uint8, host string) netfilter.Flow {
		return flowstest.Of(protocol, "198.51.100.1:1000 "+host, host+" 198.51.100.1:1000")
	}
	all := map[string]netfilter.Flow{
		"TCP":                             inward(unix.IPPROTO_TCP, "192.0.2.1:8080"),
		"UDP":                             inward(unix.IPPROTO_UDP, "192.0.2.1:8053"),
		"TCP by IPv6":                     flowstest.Of(unix.IPPROTO_TCP, "[2001:db8::7]:1000 [2001:db8::1]:8080", "[2001:db8::1]:8080 [2001:db8::7]:1000"),
		"to a port that is free":          inward(unix.IPPROTO_TCP, "192.0.2.1:8082"),
		"to a port of another protocol":   inward(unix.IPPROTO_UDP, "192.0.2.1:8080"),
		"to a port of another address":    inward(unix.IPPROTO_TCP, "192.0.2.1:8081"),
		"through the host":                inward(unix.IPPROTO_TCP, "203.0.113.1:8080"),
		"published":                       flowstest.Of(unix.IPPROTO_TCP, "198.51.100.1:1000 192.0.2.1:8080", "10.88.0.3:80 198.51.100.1:1000"),
		"published, with the port itself": flowstest.Of(unix.IPPROTO_UDP, "198.51.100.1:1000 192.0.2.1:8053", "10.88.0.3:8053 198.51.100.1:1000"),
	}
	for ip, want := range map[string][]string{"10.88.0.3": {"TCP", "UDP"}, "fd00:88::3": {"TCP by IPv6"}} {
		if got := flowstest.Wanted(publication{net.ParseIP(ip), mappings}, all); !slices.Equal(got, want) {
			t.Errorf("%s: wanted are %q, want %q", ip, got, want)
		}
	}
}
