// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package route

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// sent returns how many packets of VXLAN a host has sent since count was called.
func sent(t testing.TB, h *host) string {
	t.Helper()
	text := sandbox.Run(t, "ip", "netns", "exec", h.name, "nft", "list", "chain", "inet", "count", "out")
	return regexp.MustCompile(`packets (\d+)`).FindStringSubmatch(text)[1]
}

// count begins to count them.
func count(t testing.TB, h *host) {
	t.Helper()
	sandbox.Run(t, "ip", "netns", "exec", h.name, "nft", "add table inet count; add chain inet count out { type filter hook output priority 0; }; add rule inet count out udp dport 4789 counter")
}

// TestNoFlooding: packets for MACs and addresses that are not known go to no host, and a host does not
// learn from packets whose MAC is.
func TestNoFlooding(t *testing.T) {
	hosts := newHosts(t, 3)
	p, a := pool(ipam.ModeVXLAN), hosts[0]
	join(t, p, hosts)
	count(t, a)
	ip(t, "-n a route add 10.99.0.0/24 dev vx-net")
	ip(t, "-n a neighbour add 10.99.0.2 lladdr aa:aa:aa:aa:aa:aa dev vx-net nud permanent")
	for _, address := range []string{"10.99.0.1", "10.99.0.2"} { // a broadcast that asks for the MAC, and an unknown MAC
		if err := send(a, address, 100); err == nil {
			t.Errorf("%s answers", address)
		}
	}
	if n := sent(t, a); n != "0" {
		t.Errorf("%s packets of VXLAN were sent to other hosts", n)
	}
	if err := send(a, hosts[1].addresses[0], 100); err != nil || sent(t, a) == "0" {
		t.Errorf("packets are not counted, or %v", err)
	}
	want := hosts[1].tables(t)
	ip(t, "-n a link set vx-net address %s", hosts[2].endpoint.MAC) // a looks like c
	ip(t, "-n a neighbour replace 172.31.0.2 lladdr %s dev vx-net nud permanent", hosts[1].endpoint.MAC)
	if err := send(a, hosts[1].addresses[0], 100); err == nil {
		t.Error("the answer has come to the host with the MAC of another")
	}
	if have := hosts[1].tables(t); have != want {
		t.Errorf("b has learned:\n%s\nbefore:\n%s", have, want)
	}
}

// TestPathMTU: the host tells an allocation that its packet does not fit the VXLAN.
func TestPathMTU(t *testing.T) {
	hosts := newHosts(t, 3)
	p := pool(ipam.ModeAuto)
	join(t, p, hosts)
	for i, address := range hosts[2].addresses {
		if err := send(hosts[0], address, 1500); !errors.Is(err, unix.EMSGSIZE) {
			t.Errorf("%s: %v, want %v", address, err, unix.EMSGSIZE)
		}
		if err := send(hosts[0], address, 1450); err != nil {
			t.Errorf("%s: %v", address, err)
		}
		if err := send(hosts[0], hosts[1].addresses[i], 1500); err != nil {
			t.Errorf("routed: %v", err)
		}
	}
}

// TestUnderlayMTU: the device follows the interface of the underlay.
func TestUnderlayMTU(t *testing.T) {
	hosts := newHosts(t, 2)
	p := pool(ipam.ModeVXLAN)
	ip(t, "-n switch link set br0 mtu 9000")
	for _, h := range hosts {
		ip(t, "-n switch link set p-%s mtu 9000", h.name)
		ip(t, "-n %s link set eth0 mtu 9000", h.name)
		ip(t, "-n %s link set alloc0 mtu 9000", h.name)
		ip(t, "-n %s-alloc link set eth0 mtu 9000", h.name)
	}
	join(t, p, hosts)
	requireTraffic(t, hosts, 8950)
	ip(t, "-n a link set eth0 mtu 4000")
	if mtu := hosts[0].device(t, p); mtu != 3950 {
		t.Errorf("MTU %d", mtu)
	}
}

// TestWithoutIPv6: pools of IPv4 work on hosts where IPv6 is off.
func TestWithoutIPv6(t *testing.T) {
	hosts := newHosts(t, 3)
	for _, h := range hosts {
		sysctl(t, h.name, "net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1")
		h.endpoint.LinkLocal, h.blocks, h.addresses = ipam.Endpoint{}.LinkLocal, h.blocks[:1], h.addresses[:1]
	}
	before := states(t, hosts)
	p := pool(ipam.ModeAuto)
	p.Subnets, p.Gateways = p.Subnets[:1], p.Gateways[:1]
	join(t, p, hosts)
	requireTraffic(t, hosts, 1450)
	if off := strings.TrimSpace(ip(t, "netns exec a sysctl -n net.ipv6.conf.vx-net.disable_ipv6")); off != "1" {
		t.Errorf("the device has IPv6: disable_ipv6 is %s", off)
	}
	leave(t, hosts, before)
}

// TestNewWithoutIPv6: on hosts where new interfaces have no IPv6 a VXLAN device has it if the pool needs it: for
// IPv6 blocks, and between hosts with IPv6 addresses.
func TestNewWithoutIPv6(t *testing.T) {
	for _, underlay := range []string{"IPv4", "IPv6"} {
		t.Run(underlay, func(t *testing.T) {
			hosts, p, mtu := newHosts(t, 2), pool(ipam.ModeVXLAN), 1450
			for i, h := range hosts {
				sysctl(t, h.name, "net.ipv6.conf.default.disable_ipv6=1")
				if underlay == "IPv6" {
					h.endpoint = ipam.Endpoint{Address: netip.MustParseAddr(fmt.Sprintf("fd31::%d", i+1))}
					h.blocks, h.addresses = h.blocks[:1], h.addresses[:1]
				}
			}
			if underlay == "IPv6" {
				p.Subnets, p.Gateways, mtu = p.Subnets[:1], p.Gateways[:1], 1430
			}
			before := states(t, hosts)
			join(t, p, hosts)
			requireTraffic(t, hosts, mtu)
			leave(t, hosts, before)
		})
	}
}

// TestStrictFilter: hosts drop packets whose answer takes another interface (RFC 3704). Those of a VXLAN
// device are not dropped, but the answer to a host's own packet comes by the underlay.
func TestStrictFilter(t *testing.T) {
	hosts := newHosts(t, 3)
	join(t, pool(ipam.ModeVXLAN), hosts)
	for key, want := range map[string]string{"all": "1", "eth0": "1", "vx-net": "2"} {
		if got := strings.TrimSpace(ip(t, "netns exec a sysctl -n net.ipv4.conf.%s.rp_filter", key)); got != want {
			t.Errorf("%s: rp_filter %s, want %s", key, got, want)
		}
	}
	requireTraffic(t, hosts, 1450)
	if err := sendFrom(hosts[0].ns, hosts[2].addresses[0], 100); err == nil {
		t.Error("the strict filter of eth0 accepts what is from a VXLAN's allocation")
	}
	sysctl(t, "a", "net.ipv4.conf.eth0.rp_filter=2")
	sysctl(t, "router", "net.ipv4.conf.all.rp_filter=0", "net.ipv4.conf.far.rp_filter=0")
	for _, address := range hosts[2].addresses {
		if err := sendFrom(hosts[0].ns, address, 100); err != nil {
			t.Errorf("from the host to %s: %v", address, err)
		}
	}
}
