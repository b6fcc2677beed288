// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package client

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/internal/dhcp"
)

// What is taken from a server at most, the shortest lease, and the shortest time after which one is extended, unless half of its time is
// shorter: each time is a request, and a write to disk.
const (
	maxServers      = 8
	maxRoutes       = 64
	maxSearch       = 16
	shortestLease   = 10 * time.Second
	shortestRenewal = time.Minute
)

// leaseOf returns what a message offers or gives. Anyone on the link can be a server, so what makes no sense is an error, and no part
// of it is used.
func leaseOf(m *dhcpv4.DHCPv4) (l dhcp.Lease, err error) {
	if l.Server, err = hostAddress("server identifier", m.ServerIdentifier()); err != nil {
		return l, err
	}
	if l.Address, err = addressOf(m); err != nil {
		return l, err
	}
	if err := setRoutes(&l, m); err != nil {
		return l, err
	}
	if err := setNames(&l, m); err != nil {
		return l, err
	}
	return l, setTimes(&l, m)
}

// hostAddress returns an address that a host can have.
func hostAddress(what string, ip net.IP) (netip.Addr, error) {
	a, ok := netip.AddrFromSlice(ip.To4())
	isOfHost := ok && a.As4()[0] != 0 && a.As4()[0] < 240 && !a.IsLoopback() && !a.IsMulticast() && !a.IsLinkLocalUnicast()
	if !isOfHost {
		return a, fmt.Errorf("the %s is %q: want the IPv4 address of a host", what, ip)
	}
	return a, nil
}

// addressOf returns the address with the length of its subnet.
func addressOf(m *dhcpv4.DHCPv4) (p netip.Prefix, err error) {
	a, err := hostAddress("address", m.YourIPAddr)
	if err != nil {
		return p, err
	}
	mask := m.SubnetMask()
	ones, bits := mask.Size()
	if bits != 32 || ones < 8 {
		return p, fmt.Errorf("the subnet mask of %s is %q: want one of 8 to 32 bits", a, net.IP(mask))
	}
	p = netip.PrefixFrom(a, ones)
	if first := p.Masked().Addr(); ones < 31 && (a == first || a == ipam.LastOf(p)) {
		return p, fmt.Errorf("the address %s is that of its network, or its broadcast address: want one of a host", p)
	}
	return p, nil
}

// setRoutes has classless routes replace the router, as RFC 3442 says.
func setRoutes(l *dhcp.Lease, m *dhcpv4.DHCPv4) error {
	if routers := m.Router(); len(routers) > 0 {
		gateway, err := neighbour(l.Address, "router", routers[0])
		if err != nil {
			return err
		}
		l.Gateway = gateway
	}
	data := m.Options.Get(dhcpv4.OptionClasslessStaticRoute)
	if data == nil {
		return nil
	}
	routes := m.ClasslessStaticRoute()
	if len(routes) == 0 || len(routes) > maxRoutes {
		return fmt.Errorf("the classless routes are %d in %d bytes: want 1 to %d", len(routes), len(data), maxRoutes)
	}
	l.Gateway = netip.Addr{}
	for _, r := range routes {
		if err := addRoute(l, r); err != nil {
			return err
		}
	}
	return nil
}

func addRoute(l *dhcp.Lease, r *dhcpv4.Route) error {
	ones, _ := r.Dest.Mask.Size()
	to := netip.PrefixFrom(netip.AddrFrom4([4]byte(r.Dest.IP.To4())), ones).Masked()
	var via netip.Addr
	if !r.Router.IsUnspecified() { // else it is on the link
		var err error
		if via, err = neighbour(l.Address, fmt.Sprintf("router of %s", to), r.Router); err != nil {
			return err
		}
	}
	if to.Bits() == 0 && via.IsValid() {
		l.Gateway = via
		return nil
	}
	if to.Bits() == 0 || to.Addr().IsLoopback() || to.Addr().IsMulticast() || to.Addr().As4()[0] >= 240 {
		return fmt.Errorf("a classless route leads to %s: want a network that can be beyond a router", to)
	}
	l.Routes = append(l.Routes, dhcp.Route{To: to, Via: via})
	return nil
}

// neighbour returns the address of a router, which has to be on the link.
func neighbour(own netip.Prefix, what string, ip net.IP) (netip.Addr, error) {
	a, err := hostAddress(what, ip)
	if err == nil && (!own.Contains(a) || a == own.Addr()) {
		err = fmt.Errorf("the %s is %s: want another address of %s", what, a, own.Masked())
	}
	return a, err
}

func setNames(l *dhcp.Lease, m *dhcpv4.DHCPv4) error {
	servers := m.DNS()
	for _, ip := range servers[:min(len(servers), maxServers)] {
		a, err := hostAddress("name server", ip)
		if err != nil {
			return err
		}
		l.DNS = append(l.DNS, a)
	}
	if name := strings.TrimRight(m.DomainName(), "\x00"); name != "" { // some servers end it as in C
		if !isDomain(name) {
			return fmt.Errorf("the domain name is %q: want letters, digits, hyphens and dots", name)
		}
		l.Domain = name
	}
	data := m.Options.Get(dhcpv4.OptionDNSDomainSearchList)
	if data == nil {
		return nil
	}
	list := m.DomainSearch()
	if list == nil {
		return fmt.Errorf("the search list has %d bytes: want at most %d domain names", len(data), maxSearch)
	}
	return setSearch(l, list.Labels)
}

func setSearch(l *dhcp.Lease, names []string) error {
	if len(names) > maxSearch {
		return fmt.Errorf("the search list has %d names: want at most %d", len(names), maxSearch)
	}
	for _, name := range names {
		if !isDomain(name) {
			return fmt.Errorf("the search list has %q: want letters, digits, hyphens and dots", name)
		}
		l.Search = append(l.Search, name)
	}
	return nil
}

// isDomain tells whether a text can be in a file resolv.conf as a domain.
func isDomain(text string) bool {
	const allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."
	return text != "" && len(text) <= 253 && text[0] != '.' && text[0] != '-' && strings.Trim(text, allowed) == ""
}

// setTimes sets the times of a lease.
func setTimes(l *dhcp.Lease, m *dhcpv4.DHCPv4) error {
	lifetime := m.IPAddressLeaseTime(0)
	if lifetime == 0 {
		return errors.New("the lease has no time")
	}
	renewal, rebinding := lifetime/2, lifetime/8*7
	return setSpans(l, lifetime, m.IPAddressRenewalTime(renewal), m.IPAddressRebindingTime(rebinding), renewal, rebinding)
}

// setSpans sets the lifetime of a lease, and when it is to be extended. Times of a server (T1 and T2) that are missing or contradict each
// other are replaced by those that the RFC has. An early T1 is put off.
func setSpans(l *dhcp.Lease, lifetime, renewal, rebinding, defaultRenewal, defaultRebinding time.Duration) error {
	if lifetime < shortestLease {
		return fmt.Errorf("the lease is for %s: want %s at least", lifetime, shortestLease)
	}
	if rebinding >= lifetime || renewal >= rebinding || renewal <= 0 {
		renewal, rebinding = defaultRenewal, defaultRebinding
	}
	if renewal = max(renewal, min(shortestRenewal, lifetime/2)); renewal >= rebinding {
		rebinding = max(defaultRebinding, renewal+(lifetime-renewal)/2)
	}
	l.Lifetime, l.Renewal, l.Rebinding = dhcp.Span(lifetime), dhcp.Span(renewal), dhcp.Span(rebinding)
	return nil
}
