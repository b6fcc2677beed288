// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package onrecord

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/types/create"
)

// ParseResult reads a stored result, whatever its version.
func ParseResult(data json.RawMessage) (*types100.Result, error) {
	parsed, err := create.CreateFromBytes(data)
	if err != nil {
		return nil, fmt.Errorf("read recorded result: %w", err)
	}
	return types100.NewResultFromResult(parsed)
}

// EncodeResult returns the result as JSON in a version of the specification.
func EncodeResult(result types.Result, cniVersion string) (json.RawMessage, error) {
	converted, err := result.GetAsVersion(cniVersion)
	if err != nil {
		return nil, fmt.Errorf("convert result to version %s: %w", cniVersion, err)
	}
	return json.Marshal(converted)
}

// isInside tells whether plugins report an interface as one in the namespace. One of a socket or a device that a task drives itself
// is no interface of the kernel.
func isInside(i *types100.Interface) bool {
	return i.Sandbox != "" && i.SocketPath == "" && i.PciID == ""
}

// Addresses returns the addresses of a result in a fixed order: those of
// interfaces in the sandbox first, by name, then those of no interface.
// Addresses of interfaces on the host are not the allocation's.
func Addresses(result *types100.Result) []netip.Prefix {
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

// Gateway returns the gateway that a result names for a family.
func Gateway(result *types100.Result, v6 bool) (netip.Addr, bool) {
	for _, ip := range result.IPs {
		gateway, ok := netip.AddrFromSlice(ip.Gateway)
		if ok && gateway.Unmap().Is6() == v6 {
			return gateway.Unmap(), true
		}
	}
	return netip.Addr{}, false
}

// InterfaceAddresses returns the addresses of a result that are of an interface, and those of none.
func InterfaceAddresses(result *types100.Result, name string) (addresses []netip.Prefix) {
	for _, ip := range result.IPs {
		address, ok := prefixOf(ip.Address)
		i := ip.Interface
		if ok && (i == nil || *i >= 0 && *i < len(result.Interfaces) && result.Interfaces[*i].Name == name) {
			addresses = append(addresses, address)
		}
	}
	return addresses
}
