// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package portmap

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/allocnet/allocnet/internal/errdefs"
)

// Port is a port of an allocation.
type Port struct {
	// Label names the port within the allocation. Required.
	Label string `json:"label"`
	// HostPort is the port on the host, 1 to 65535.
	HostPort int `json:"hostPort"`
	// To is the port in the namespace. 0: the same as HostPort.
	To int `json:"to,omitempty"`
	// HostIP is the address on the host. Empty: all.
	HostIP string `json:"hostIP,omitempty"`
	// Protocol is "tcp", "udp" or "sctp". Empty: tcp and udp.
	Protocol string `json:"protocol,omitempty"`
}

// InvalidPortError is a port that cannot be mapped.
type InvalidPortError struct {
	Port   string
	Field  string
	Value  string
	Reason string
}

func (e *InvalidPortError) Error() string {
	return fmt.Sprintf("port %q: %s %q: %s", e.Port, e.Field, e.Value, e.Reason)
}

// Kind is that of package errdefs.
func (*InvalidPortError) Kind() errdefs.Kind { return errdefs.Refused }

// UnknownLabelError is a port label that the allocation does not have.
type UnknownLabelError struct {
	Label string
	Known []string
}

func (e *UnknownLabelError) Error() string {
	known := "none"
	if len(e.Known) > 0 {
		known = strings.Join(e.Known, ", ")
	}
	return fmt.Sprintf("no port has the label %q: the allocation has %s", e.Label, known)
}

// Kind is that of package errdefs.
func (*UnknownLabelError) Kind() errdefs.Kind { return errdefs.Refused }

func (p Port) validate() error {
	fail := func(field string, value any, reason string) error {
		return &InvalidPortError{p.Label, field, fmt.Sprint(value), reason}
	}
	if p.HostPort < 1 || p.HostPort > 65535 {
		return fail("host port", p.HostPort, "want 1 to 65535")
	}
	if p.To < 0 || p.To > 65535 {
		return fail("to", p.To, "want 1 to 65535, or 0 for the host port")
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
// order. A label that no port has is an *UnknownLabelError.
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
			return nil, ports, &UnknownLabelError{label, labelsOf(ports)}
		}
	}
	return taken, rest, nil
}

func labelsOf(ports []Port) []string {
	var labels []string
	for _, p := range ports {
		labels = append(labels, p.Label)
	}
	return labels
}
