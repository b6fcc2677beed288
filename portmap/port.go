// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package portmap turns the ports of an allocation into the mappings that the
// portMappings capability of CNI carries, by Nomad's rules: a port without
// `to` maps to itself, one without a protocol is mapped for TCP and UDP, and
// the host IP is kept.
//
// Functions do not modify their input.
package portmap

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/allocnet/allocnet/allocation"
	"github.com/allocnet/allocnet/internal/errdefs"
)

// Port is a port of an allocation.
type Port = allocation.Port

func invalidPort(port, field string, value any, reason string) error {
	return errdefs.As(errdefs.Refused, fmt.Errorf("port %q: %s %q: %s", port, field, fmt.Sprint(value), reason))
}

// noShift is what is wrong with another port for a range.
const noShift = "omit it: a range is mapped to the same ports, as one rule of nftables shifts no ports"

func validate(p Port) error {
	fail := func(field string, value any, reason string) error {
		return invalidPort(p.Label, field, value, reason)
	}
	if p.HostPort < 1 || p.HostPort > 65535 {
		return fail("host port", p.HostPort, "want 1 to 65535")
	}
	if p.To < 0 || p.To > 65535 {
		return fail("to", p.To, "want 1 to 65535, or 0 for the host port")
	}
	if p.LastHostPort != 0 && (p.LastHostPort < p.HostPort || p.LastHostPort > 65535) {
		return fail("lastHostPort", p.LastHostPort, fmt.Sprintf("want %d to 65535, or none for one port", p.HostPort))
	}
	if p.LastHostPort > p.HostPort && p.To != 0 && p.To != p.HostPort {
		return fail("to", p.To, noShift)
	}
	if p.Protocol != "" && !slices.Contains([]string{"tcp", "udp", "sctp"}, p.Protocol) {
		return fail("protocol", p.Protocol, "want tcp, udp or sctp, or none for tcp and udp")
	}
	if p.HostIP != "" {
		// A zone may be any text, and the portmap plugin copies it into a rule.
		if address, err := netip.ParseAddr(p.HostIP); err != nil || address.Zone() != "" {
			return fail("host IP", p.HostIP, "want an IPv4 or IPv6 address without a zone")
		}
	}
	return nil
}

// Select splits ports into those with the labels and the rest, both in their
// order. A label that no port has is an error.
func Select(ports []Port, labels []string) (taken, rest []Port, err error) {
	for _, p := range ports {
		if slices.Contains(labels, p.Label) {
			taken = append(taken, p)
		} else {
			rest = append(rest, p)
		}
	}
	for _, label := range labels {
		if !slices.ContainsFunc(taken, func(p Port) bool { return p.Label == label }) {
			var known []string
			for _, p := range ports {
				known = append(known, p.Label)
			}
			return nil, ports, errdefs.As(errdefs.Refused, fmt.Errorf("no port has the label %q: the allocation has %s", label, cmp.Or(strings.Join(known, ", "), "none")))
		}
	}
	return taken, rest, nil
}
