// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package client

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/iana"

	"github.com/allocnet/allocnet/internal/dhcp"
)

// maxServerID is the longest identifier of a server (RFC 8415, section 11.1).
const maxServerID = 130

// serverOf is the identifier of the server of a message, in hexadecimal digits; empty if it has none.
func serverOf(m *dhcpv6.Message) string {
	id := m.Options.ServerID()
	if id == nil {
		return ""
	}
	return hex.EncodeToString(id.ToBytes())
}

// leaseOf returns what a message offers or gives: of an address, or of the first one without one. As with IPv4, what makes no sense is an
// error, and no part of it is used.
func (c *ipv6) leaseOf(m *dhcpv6.Message, from, of netip.Addr) (l dhcp.Lease, err error) {
	l.ServerID = serverOf(m)
	if n := len(l.ServerID) / 2; n == 0 || n > maxServerID {
		return l, fmt.Errorf("the server identifier has %d bytes: want 1 to %d", n, maxServerID)
	}
	if err := refusal(m.Options.Status()); err != nil {
		return l, err
	}
	_, association := c.identify()
	for _, ia := range m.Options.IANA() {
		if ia.IaId != association {
			continue
		}
		if err := setAddress(&l, ia, of); err != nil {
			return l, err
		}
	}
	if !l.Address.IsValid() {
		return l, errors.New("it has no association of addresses (IA_NA) of this client")
	}
	if err := setNamesIPv6(&l, m); err != nil {
		return l, err
	}
	l.Server = from
	return c.ofClient(l, nil), nil
}

// refusal returns the status of a message, an association or an address as an error; nil if there is none.
func refusal(s *dhcpv6.OptStatusCode) error {
	if s == nil {
		return nil
	}
	return statusOf(s.StatusCode, s.StatusMessage)
}

// setAddress takes the address and its times. Those that a server gives beside it are not used.
func setAddress(l *dhcp.Lease, ia *dhcpv6.OptIANA, of netip.Addr) error {
	if err := refusal(ia.Options.Status()); err != nil {
		return err
	}
	for _, given := range ia.Options.Addresses() {
		a, err := hostAddressIPv6("address", given.IPv6Addr)
		if err != nil {
			return err
		}
		if of.IsValid() && a != of {
			continue
		}
		if err := refusal(given.Options.Status()); err != nil {
			return err
		}
		if of.IsValid() && given.ValidLifetime == 0 {
			return statusOf(iana.StatusNotOnLink, fmt.Sprintf("the lifetime of %s is over", a))
		}
		l.Address = netip.PrefixFrom(a, a.BitLen())
		return setTimesIPv6(l, ia, given)
	}
	if of.IsValid() {
		return fmt.Errorf("it does not have the address %s", of)
	}
	return errors.New("it has no address")
}

// setTimesIPv6 sets the times of a lease.
func setTimesIPv6(l *dhcp.Lease, ia *dhcpv6.OptIANA, given *dhcpv6.OptIAAddress) error {
	lifetime, preferred := given.ValidLifetime, given.PreferredLifetime
	if preferred > lifetime {
		return fmt.Errorf("the preferred lifetime is %s, and the valid one %s: want it to be no longer", preferred, lifetime)
	}
	if preferred < shortestLease { // deprecated at once: connections use it until it ends
		preferred = lifetime
	}
	return setSpans(l, lifetime, ia.T1, ia.T2, preferred/2, preferred/5*4)
}

// setNamesIPv6 takes name servers, but not link-local ones, which a resolver needs the name of the interface for, and the search list.
func setNamesIPv6(l *dhcp.Lease, m *dhcpv6.Message) error {
	servers := m.Options.DNS()
	for _, ip := range servers[:min(len(servers), maxServers)] {
		if ip.IsLinkLocalUnicast() {
			continue
		}
		a, err := hostAddressIPv6("name server", ip)
		if err != nil {
			return err
		}
		l.DNS = append(l.DNS, a)
	}
	list := m.Options.DomainSearchList()
	if list == nil {
		return nil
	}
	return setSearch(l, list.Labels)
}

// hostAddressIPv6 returns an address that a host can have beyond its link.
func hostAddressIPv6(what string, ip net.IP) (netip.Addr, error) {
	a, ok := netip.AddrFromSlice(ip)
	if !ok || !a.Is6() || a.Is4In6() || a.IsUnspecified() || a.IsLoopback() || a.IsMulticast() || a.IsLinkLocalUnicast() {
		return a, fmt.Errorf("the %s is %q: want the IPv6 address of a host", what, ip)
	}
	return a, nil
}
