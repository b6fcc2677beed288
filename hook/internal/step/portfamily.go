// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package step

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/allocnet/allocnet/allocation"
	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/internal/errdefs"
)

// portFamilies refuses ports that no address serves.
var portFamilies = step{Result: checkPortFamilies}

// PortFamilyError is a chosen port of the host that no address of the attachment can
// serve: the portmap plugin makes no rule for such a port, and reports success.
type PortFamilyError struct {
	Network, Interface string
	Mapping            allocation.PortMapping
	// Addresses are those of the attachment.
	Addresses []netip.Prefix
}

func (e *PortFamilyError) Error() string {
	port := fmt.Sprintf("network %q as %s: host port %s/%s", e.Network, e.Interface, e.Mapping.HostPorts(), e.Mapping.Protocol)
	if e.Mapping.HostIP == "" {
		return port + " cannot be mapped: the attachment has no address"
	}
	if isLocalIPv6(e.Mapping) {
		return fmt.Sprintf("%s on %s cannot be mapped: connections to it do not leave the host: choose 127.0.0.1, or another address of the host", port, e.Mapping.HostIP)
	}
	family := "IPv4"
	if host, err := netip.ParseAddr(e.Mapping.HostIP); err == nil && host.Unmap().Is6() {
		family = "IPv6"
	}
	return fmt.Sprintf("%s on %s cannot be mapped: the attachment has no %s address, but %v: choose a host IP of their family, or give the network a range of %s addresses",
		port, e.Mapping.HostIP, family, e.Addresses, family)
}

// Kind is that of package errdefs.
func (*PortFamilyError) Kind() errdefs.Kind { return errdefs.Refused }

// checkPortFamilies refuses a result without an address for a chosen port. Assigned
// ports are not the allocation's choice: without an address they are only logged.
func checkPortFamilies(w *Work, c Call) error {
	a := c.Attachment
	result, err := onrecord.ParseResult(a.Result)
	if err != nil {
		return err
	}
	chosen, err := onrecord.DecodeMappings(a.ChosenPorts)
	if err != nil {
		return err
	}
	all, err := onrecord.DecodeMappings(a.CapabilityArgs["portMappings"])
	if err != nil {
		return err
	}
	if len(all) > 0 {
		warnUnreachedPorts(w, c)
	}
	addresses := onrecord.Addresses(result)
	for _, m := range all {
		if servesPort(addresses, m) {
			continue
		}
		err := &PortFamilyError{a.Network, a.Interface, m, addresses}
		if slices.Contains(chosen, m) {
			return err
		}
		w.log(a).Warn("an assigned port is not mapped", "error", err)
	}
	return nil
}

func warnUnreachedPorts(w *Work, c Call) {
	switch first := cniconf.Chain(c.Recorded)[0]; {
	case first.PassesHost():
		w.log(c.Attachment).Warn("published ports do not answer: the plugin " + first.Type + " sends past the host; use the address of the attachment")
	case first.Type == "bridge" && !first.HairpinMode && w.Host.FiltersBridges():
		w.log(c.Attachment).Warn("with br_netfilter the allocation does not reach its own published ports: set \"hairpinMode\": true of the plugin bridge")
	}
}

// isLocalIPv6 tells whether a port is mapped on ::1 alone. The kernel lets nothing from there out to an attachment.
func isLocalIPv6(m allocation.PortMapping) bool {
	host, err := netip.ParseAddr(m.HostIP)
	return err == nil && host == netip.IPv6Loopback()
}

// servesPort tells whether an address is of the family of the mapping's host IP. All
// families have the empty host IP.
func servesPort(addresses []netip.Prefix, m allocation.PortMapping) bool {
	if isLocalIPv6(m) {
		return false
	}
	host, err := netip.ParseAddr(m.HostIP)
	return slices.ContainsFunc(addresses, func(p netip.Prefix) bool { return err != nil || p.Addr().Is4() == host.Unmap().Is4() })
}
