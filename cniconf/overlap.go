// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniconf

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/internal/netns"
)

// takenSubnet is a subnet that a new network cannot have.
type takenSubnet struct {
	netip.Prefix
	by string
}

// taken returns the subnets of networks, and those that the host reaches otherwise than by the links of the new network.
func taken(others []*Network, routes []netns.OwnRoute, links []string) (all []takenSubnet) {
	for _, other := range others {
		for _, subnet := range assignedBy(other) {
			all = append(all, takenSubnet{subnet, fmt.Sprintf("%s of network %q (%s)", subnet, other.Name, other.Path)})
		}
	}
	for _, route := range routes {
		if !slices.Contains(links, route.Interface) {
			all = append(all, takenSubnet{route.Destination, "the route of this host to " + route.String()})
		}
	}
	return all
}

// assignedBy returns the subnets of the addresses that the network assigns: those of Subnets, and those of static addresses.
func assignedBy(n *Network) (all []netip.Prefix) {
	for _, subnet := range n.Subnets() {
		all = append(all, subnet.Masked())
	}
	for _, p := range n.Chain() {
		for _, a := range p.addresses().Addresses {
			if prefix, err := netip.ParsePrefix(a.Address); err == nil {
				all = append(all, prefix.Masked())
			}
		}
	}
	return all
}

// CheckFree refuses a new network whose bridge, or an address of which, another network has, or which the host reaches another way.
// What is reached by the master of the network is what the network is for.
func (n *Network) CheckFree(others []*Network, routes []netns.OwnRoute) error {
	var links []string
	for _, d := range n.Devices() {
		links = append(links, d.Name)
		if i := slices.IndexFunc(others, func(other *Network) bool { return d.Bridge && other.createsBridge(d.Name) }); i >= 0 {
			return errdefs.As(errdefs.Refused, fmt.Errorf("bridge %s is that of network %q (%s): choose another one", d.Name, others[i].Name, others[i].Path))
		}
	}
	elsewhere := taken(others, routes, links)
	for _, subnet := range assignedBy(n) {
		for _, other := range elsewhere {
			if subnet.Overlaps(other.Prefix) {
				return errdefs.As(errdefs.Refused, fmt.Errorf("subnet %s overlaps %s: choose another one", subnet, other.by))
			}
		}
	}
	return nil
}

// choosable are what FreeSubnet chooses from.
var choosable = netip.MustParsePrefix("10.88.0.0/13")

// FreeSubnet returns a subnet that a new network can have.
func FreeSubnet(others []*Network, routes []netns.OwnRoute) (netip.Prefix, error) {
	all := taken(others, routes, nil)
	for address := choosable.Addr(); choosable.Contains(address); {
		subnet := netip.PrefixFrom(address, 24)
		if !slices.ContainsFunc(all, func(t takenSubnet) bool { return t.Overlaps(subnet) }) {
			return subnet, nil
		}
		address = ipam.LastOf(subnet).Next()
	}
	return netip.Prefix{}, errdefs.As(errdefs.Refused, errors.New("no subnet of "+choosable.String()+" is free: name one"))
}
