// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package onrecord

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"

	types100 "github.com/containernetworking/cni/pkg/types/100"

	"github.com/allocnet/allocnet/allocation"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/state"
)

// EncodeStatus returns what the record says of an attachment in the namespace.
func EncodeStatus(a state.Attachment, interfaces []netns.Interface, routes []netns.Route, mappings []allocation.PortMapping) (json.RawMessage, error) {
	status, err := inspect(a, interfaces, routes, mappings)
	if err != nil {
		return nil, err
	}
	return json.Marshal(status)
}

// Shows tells whether the interfaces have the one that the attachment's result
// describes: plugins give each a MAC of its own.
func Shows(a state.Attachment, interfaces []netns.Interface) bool {
	result, err := ParseResult(a.Result)
	if err != nil {
		return false
	}
	for _, reported := range result.Interfaces {
		if reported.Name != a.Interface || reported.Sandbox == "" || reported.Mac == "" {
			continue
		}
		if slices.ContainsFunc(interfaces, func(i netns.Interface) bool { return i.Name == reported.Name && netns.SameMAC(i.MAC, reported.Mac) }) {
			return true
		}
	}
	return false
}

// IsComplete tells whether an attachment is attached and inspected.
func IsComplete(a state.Attachment) bool { return a.Phase == state.Attached && a.Status != nil }

// IsInFlight tells whether a call has begun to change an attachment, and has not ended.
func IsInFlight(a state.Attachment) bool { return a.Phase == state.Adding || a.Phase == state.Deleting }

// IsRenamed tells whether an interface is the attachment's under another name than the recorded one: it has its master outside
// of the namespace, and the recorded MAC or, of a kind that has its master's MAC, a recorded address. The pair of a veth is
// known by its end on the host.
func (s Status) IsRenamed(recorded string, i netns.Interface) bool {
	if i.Name == recorded || !i.LinkOutside {
		return false
	}
	hasAddress := s.HasAddressOf(i)
	switch i.Kind {
	case "macvlan":
		return hasAddress || netns.SameMAC(s.MAC, i.MAC)
	case "ipvlan", "vlan":
		return hasAddress
	}
	return false
}

// HasAddressOf tells whether an interface has an address that the attachment had.
func (s Status) HasAddressOf(i netns.Interface) bool {
	return slices.ContainsFunc(i.Addresses, func(p netip.Prefix) bool { return slices.Contains(s.Addresses, p) })
}

// Status is what is on record of what was observed.
type Status struct {
	allocation.Observed
	// Configured are the addresses of the result that the interface had. Those that
	// it gave itself, as with SLAAC, come and go.
	Configured []netip.Prefix `json:"configured,omitempty"`
}

// ReadStatus returns what is on record of what was observed of an attachment.
func ReadStatus(a state.Attachment) (seen Status, err error) {
	if err := json.Unmarshal(a.Status, &seen); err != nil {
		return seen, fmt.Errorf("interface %s: read recorded status: %w", a.Interface, err)
	}
	return seen, nil
}

// Mappings returns the ports.
func (s Status) Mappings() []allocation.PortMapping {
	return s.Ports
}

// inspect joins what the plugins reported of an attachment with what the
// namespace shows of its interface.
func inspect(a state.Attachment, interfaces []netns.Interface, routes []netns.Route, ports []allocation.PortMapping) (Status, error) {
	result, err := ParseResult(a.Result)
	if err != nil {
		return Status{}, err
	}
	seen := Status{Observed: allocation.Observed{
		Addresses: Addresses(result), Ports: ports,
		DNS: allocation.DNS{Servers: result.DNS.Nameservers, Domain: result.DNS.Domain, Searches: result.DNS.Search, Options: result.DNS.Options},
	}}
	for _, i := range interfaces {
		if i.Name != a.Interface {
			continue
		}
		seen.MAC, seen.MTU = i.MAC, i.MTU
		seen.Configured = slices.DeleteFunc(slices.Clone(i.Addresses), func(p netip.Prefix) bool { // with the lengths that the interface has
			return !slices.ContainsFunc(seen.Addresses, func(r netip.Prefix) bool { return r.Addr() == p.Addr() })
		})
		if seen.Addresses = append(seen.Addresses, a.Advertised...); len(seen.Addresses) == 0 {
			seen.Addresses = i.Addresses
		}
	}
	seen.Gateways = GatewaysBy(a.Interface, routes)
	return seen, nil
}

// HasInterface tells whether an attachment had an interface of its name in the namespace when it was attached: its plugins report
// one, or it was seen. Some plugins make none, or another one, as loopback does.
func HasInterface(a state.Attachment, seen Status) bool {
	result, err := ParseResult(a.Result)
	return seen.MTU != 0 || err != nil || slices.ContainsFunc(result.Interfaces, func(i *types100.Interface) bool { return i.Name == a.Interface && isInside(i) })
}

// RequirePresent refuses a result with an interface in the namespace that is not there.
func RequirePresent(a state.Attachment, present []netns.Interface) error {
	result, err := ParseResult(a.Result)
	if err != nil {
		return err
	}
	for _, i := range result.Interfaces {
		if isInside(i) && netns.Index(present, i.Name) < 0 {
			return fmt.Errorf("the network's plugins report interface %s in the namespace, and it is not there", i.Name)
		}
	}
	return nil
}

// GatewaysBy returns the gateways of the routes through an interface.
func GatewaysBy(iface string, routes []netns.Route) []netip.Addr {
	var gateways []netip.Addr
	for _, route := range routes {
		if route.Interface == iface && route.Gateway.IsValid() {
			gateways = append(gateways, route.Gateway)
		}
	}
	return gateways
}

// DecodeMappings reads the mappings of a record.
func DecodeMappings(recorded any) ([]allocation.PortMapping, error) {
	data, err := json.Marshal(recorded)
	if err != nil {
		return nil, err
	}
	var mappings []allocation.PortMapping
	return mappings, json.Unmarshal(data, &mappings)
}
