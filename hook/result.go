// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/containerd/go-cni"
	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/types/create"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/state"
)

// parseResult reads a stored result, whatever its version.
func parseResult(data json.RawMessage) (*types100.Result, error) {
	parsed, err := create.CreateFromBytes(data)
	if err != nil {
		return nil, fmt.Errorf("read recorded result: %w", err)
	}
	return types100.NewResultFromResult(parsed)
}

// encodeResult returns the result as JSON in a version of the specification.
func encodeResult(result types.Result, cniVersion string) (json.RawMessage, error) {
	converted, err := result.GetAsVersion(cniVersion)
	if err != nil {
		return nil, fmt.Errorf("convert result to version %s: %w", cniVersion, err)
	}
	return json.Marshal(converted)
}

// recordedStatus is what is on record of what was observed.
type recordedStatus struct {
	Observed
	// Configured are the addresses of the result that the interface had. Those that
	// it gave itself, as with SLAAC, come and go.
	Configured []netip.Prefix `json:"configured,omitempty"`
}

// readStatus returns what is on record of what was observed of an attachment.
func readStatus(a state.Attachment) (seen recordedStatus, err error) {
	if err := json.Unmarshal(a.Status, &seen); err != nil {
		return seen, fmt.Errorf("interface %s: read recorded status: %w", a.Interface, err)
	}
	return seen, nil
}

// mappings returns the ports.
func (s recordedStatus) mappings() []cni.PortMapping {
	var all []cni.PortMapping
	for _, port := range s.Ports {
		all = append(all, cni.PortMapping(port))
	}
	return all
}

// inspect joins what the plugins reported of an attachment with what the
// namespace shows of its interface.
func inspect(a state.Attachment, interfaces []netns.Interface, routes []netns.Route, ports []cni.PortMapping) (recordedStatus, error) {
	result, err := parseResult(a.Result)
	if err != nil {
		return recordedStatus{}, err
	}
	seen := recordedStatus{Observed: Observed{
		Addresses: resultAddresses(result),
		DNS:       DNS{Servers: result.DNS.Nameservers, Domain: result.DNS.Domain, Searches: result.DNS.Search, Options: result.DNS.Options},
	}}
	for _, port := range ports {
		seen.Ports = append(seen.Ports, PortMapping(port))
	}
	for _, i := range interfaces {
		if i.Name != a.Interface {
			continue
		}
		seen.MAC, seen.MTU = i.MAC, i.MTU
		seen.Configured = configured(seen.Addresses, i.Addresses)
		if len(seen.Addresses) == 0 {
			seen.Addresses = i.Addresses
		}
	}
	seen.Gateways = gatewaysBy(a.Interface, routes)
	return seen, nil
}

// isInside tells whether plugins report an interface as one in the namespace. One of a socket or a device that a task drives itself
// is no interface of the kernel.
func isInside(i *types100.Interface) bool {
	return i.Sandbox != "" && i.SocketPath == "" && i.PciID == ""
}

// hasInterface tells whether an attachment had an interface of its name in the namespace when it was attached: its plugins report
// one, or it was seen. Some plugins make none, or another one, as loopback does.
func hasInterface(a state.Attachment, seen recordedStatus) bool {
	result, err := parseResult(a.Result)
	return seen.MTU != 0 || err != nil || slices.ContainsFunc(result.Interfaces, func(i *types100.Interface) bool { return i.Name == a.Interface && isInside(i) })
}

// requirePresent refuses a result with an interface in the namespace that is not there.
func requirePresent(a state.Attachment, present []netns.Interface) error {
	result, err := parseResult(a.Result)
	if err != nil {
		return err
	}
	for _, i := range result.Interfaces {
		if isInside(i) && indexOf(present, i.Name) < 0 {
			return fmt.Errorf("the network's plugins report interface %s in the namespace, and it is not there", i.Name)
		}
	}
	return nil
}

// configured returns those of an interface's addresses that a result has, with the
// prefix lengths that the interface has.
func configured(result, present []netip.Prefix) []netip.Prefix {
	return slices.DeleteFunc(slices.Clone(present), func(p netip.Prefix) bool {
		return !slices.ContainsFunc(result, func(r netip.Prefix) bool { return r.Addr() == p.Addr() })
	})
}

// gatewaysBy returns the gateways of the routes through an interface.
func gatewaysBy(iface string, routes []netns.Route) []netip.Addr {
	var gateways []netip.Addr
	for _, route := range routes {
		if route.Interface == iface && route.Gateway.IsValid() {
			gateways = append(gateways, route.Gateway)
		}
	}
	return gateways
}

// resultAddresses returns the addresses of a result in a fixed order: those of
// interfaces in the sandbox first, by name, then those of no interface.
// Addresses of interfaces on the host are not the allocation's.
func resultAddresses(result *types100.Result) []netip.Prefix {
	type owned struct {
		inside  bool
		name    string
		address netip.Prefix
	}
	var list []owned
	for _, ip := range result.IPs {
		address, ok := prefixOf(ip.Address)
		if !ok {
			continue
		}
		o := owned{address: address}
		if i := ip.Interface; i != nil && *i >= 0 && *i < len(result.Interfaces) {
			o.name, o.inside = result.Interfaces[*i].Name, result.Interfaces[*i].Sandbox != ""
			if !o.inside {
				continue
			}
		}
		list = append(list, o)
	}
	slices.SortStableFunc(list, func(a, b owned) int {
		if a.inside != b.inside {
			return cmp.Compare(b.name, a.name) // a name comes before none
		}
		return cmp.Compare(a.name, b.name)
	})
	var addresses []netip.Prefix
	for _, o := range list {
		addresses = append(addresses, o.address)
	}
	return addresses
}

func prefixOf(n net.IPNet) (netip.Prefix, bool) {
	address, ok := netip.AddrFromSlice(n.IP)
	if !ok {
		return netip.Prefix{}, false
	}
	ones, _ := n.Mask.Size()
	return netip.PrefixFrom(address.Unmap(), ones), true
}

// gatewayOf returns the gateway that a result names for a family.
func gatewayOf(result *types100.Result, v6 bool) (netip.Addr, bool) {
	for _, ip := range result.IPs {
		gateway, ok := netip.AddrFromSlice(ip.Gateway)
		if ok && gateway.Unmap().Is6() == v6 {
			return gateway.Unmap(), true
		}
	}
	return netip.Addr{}, false
}

// interfaceAddresses returns the addresses of a result that are of an interface, and those of none.
func interfaceAddresses(result *types100.Result, name string) (addresses []netip.Prefix) {
	for _, ip := range result.IPs {
		address, ok := prefixOf(ip.Address)
		i := ip.Interface
		if ok && (i == nil || *i >= 0 && *i < len(result.Interfaces) && result.Interfaces[*i].Name == name) {
			addresses = append(addresses, address)
		}
	}
	return addresses
}
