// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package dhcp has what is on record of a lease of DHCP, and when it is to be extended. It does no I/O; package client speaks with
// servers.
package dhcp

import (
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Family is one of addresses, as it is written in configurations.
type Family string

// Families.
const (
	IPv4 Family = "ipv4"
	IPv6 Family = "ipv6"
)

// Lease is that of the address of one family of an attachment. It is on record before the address is asked for, and before it is used: what a
// killed process has, its successor extends or releases.
type Lease struct {
	// ClientID is what servers know the attachment by, and HostName the name that it tells them; empty: none.
	ClientID string `json:"clientID"`
	HostName string `json:"hostName,omitempty"`
	// Server has given the lease. Hop is the link-layer address that its answers come from: its own, or that of a relay. ServerID is what
	// a server of DHCPv6 is known by, in hexadecimal digits.
	Server   netip.Addr `json:"server"`
	Hop      string     `json:"hop,omitempty"`
	ServerID string     `json:"serverID,omitempty"`
	// Address is with the length of its subnet; of IPv6 that is 128, as servers do not tell which addresses are on the link.
	Address netip.Prefix `json:"address"`
	// Gateway is the router; zero: none. Of IPv6 it is left to router advertisements, as are routes.
	Gateway netip.Addr   `json:"gateway,omitzero"`
	Routes  []Route      `json:"routes,omitempty"`
	DNS     []netip.Addr `json:"dns,omitempty"`
	Domain  string       `json:"domain,omitempty"`
	Search  []string     `json:"search,omitempty"`
	// Acquired is when it was given or extended, for people. Clock is the same as the time since boot, which nothing sets: it decides.
	Acquired time.Time `json:"acquired"`
	Clock    Span      `json:"clock"`
	// Renewal, Rebinding and Lifetime are counted from Clock.
	Renewal   Span `json:"renewal"`
	Rebinding Span `json:"rebinding"`
	Lifetime  Span `json:"lifetime"`
	// Requested is whether it is known only that it was asked for.
	Requested bool `json:"requested,omitempty"`
	// Lost is whether the address is not used any more: the lease ended, or a server refused it.
	Lost bool `json:"lost,omitempty"`
	// Declined is whether it was lost because another interface of the link has the address, which is not asked for again.
	Declined bool `json:"declined,omitempty"`
	// HadDefault is whether the default route of the namespace was by a lease that was lost.
	HadDefault bool `json:"hadDefault,omitempty"`
	// Former is the lease that this one replaces, until the namespace is as this one has it: a process that was killed has recorded
	// the change, and perhaps not made it. Nil: it is.
	Former *Lease `json:"former,omitempty"`
}

// Route is a route that a server gives; without a gateway it is on the link.
type Route struct {
	To  netip.Prefix `json:"to"`
	Via netip.Addr   `json:"via,omitzero"`
}

// forever is the lifetime of a lease that does not end.
const forever = time.Duration(1<<32-1) * time.Second

// Span is a duration, which a record has as text, such as 30m0s.
type Span time.Duration

// MarshalText returns the text.
func (s Span) MarshalText() ([]byte, error) { return []byte(time.Duration(s).String()), nil }

// UnmarshalText reads the text.
func (s *Span) UnmarshalText(text []byte) error {
	d, err := time.ParseDuration(string(text))
	*s = Span(d)
	return err
}

// Now is the time since boot.
func Now() time.Duration {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) // never fails for this clock
	return time.Duration(now.Nano())
}

// Stage is what is to be done about a lease.
type Stage int

// Stages of a lease.
const (
	// Bound: nothing is to be done.
	Bound Stage = iota
	// Renewing: its server is asked to extend it.
	Renewing
	// Rebinding: any server is.
	Rebinding
	// Ended: another one is needed, and the address is not to be used.
	Ended
)

// Stage returns that at a time since boot.
func (l Lease) Stage(now time.Duration) Stage {
	age := Span(now) - l.Clock
	switch {
	case l.Lost:
		return Ended
	case l.Lifetime >= Span(forever):
		return Bound
	case age >= l.Lifetime:
		return Ended
	case age >= l.Rebinding:
		return Rebinding
	case age >= l.Renewal:
		return Renewing
	}
	return Bound
}

// Pauses between attempts: RFC 2131 has half of the time that is left, and a minute at least.
const (
	leastPause = time.Minute
	endedPause = 10 * time.Second
)

// Due returns when the next attempt is due, after one at a time since boot; 0: there was none. A lease that does not end is never due.
func (l Lease) Due(tried time.Duration) time.Duration {
	if l.Lifetime >= Span(forever) && !l.Lost {
		return forever
	}
	end := l.Clock // of the stage
	switch l.Stage(tried) {
	case Ended:
		return tried + endedPause
	case Bound:
		return time.Duration(l.Clock + l.Renewal)
	case Renewing:
		end += l.Rebinding
	case Rebinding:
		end += l.Lifetime
	}
	next := time.Duration(end)
	return min(next, tried+max(leastPause, (next-tried)/2))
}

// SameAs tells whether two leases give the same.
func (l Lease) SameAs(other Lease) bool {
	return l.Address == other.Address && l.Gateway == other.Gateway && l.Domain == other.Domain && l.Lost == other.Lost &&
		slices.Equal(l.Routes, other.Routes) && slices.Equal(l.DNS, other.DNS) && slices.Equal(l.Search, other.Search)
}

// Family is that of the address.
func (l Lease) Family() Family {
	if l.Address.Addr().Is6() {
		return IPv6
	}
	return IPv4
}

// Addresses are those that the interface may have by the lease.
func (l Lease) Addresses() []netip.Prefix {
	all := []netip.Prefix{l.Address}
	if l.Former != nil {
		all = append(all, l.Former.Address)
	}
	return all
}

// Expires is when the lease ends, for people; zero: never.
func (l Lease) Expires() time.Time {
	if l.Lifetime >= Span(forever) {
		return time.Time{}
	}
	return l.Acquired.Add(time.Duration(l.Lifetime))
}
