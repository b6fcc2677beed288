// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"fmt"
	"net/netip"

	"github.com/containernetworking/cni/libcni"

	"github.com/allocnet/allocnet/cniconf"
)

// destination is what the kernel tells a route by.
type destination struct {
	to              netip.Prefix
	table, priority int
}

// destinations returns those of the routes that a network is configured with, but for default
// routes: the order of networks decides who has that.
func destinations(list *libcni.NetworkConfigList) []destination {
	var all []destination
	for _, p := range list.Plugins {
		conf, err := decodePlugin(p)
		if err != nil {
			continue // the plugin reports it
		}
		for _, route := range conf.IPAM.Routes {
			to, err := netip.ParsePrefix(route.Dst)
			if err == nil && to.Bits() > 0 {
				all = append(all, destination{to.Masked(), route.Table, route.Priority})
			}
		}
	}
	return all
}

// refuseSharedRoutes refuses a network with a route that another network of the allocation has: with
// IPv6 the kernel would spread connections over both, with IPv4 the last one that is attached would get all.
func (p *plan) refuseSharedRoutes() error {
	type holder struct{ network, iface string }
	holders := map[destination]holder{}
	for _, a := range p.existing {
		list, err := cniconf.ParseList(a.ConfList)
		if err != nil {
			continue // it was never attached
		}
		for _, d := range destinations(list) {
			holders[d] = holder{a.Network, a.Interface}
		}
	}
	for _, added := range p.added {
		for _, d := range destinations(added.network.List) {
			if other, taken := holders[d]; taken && other.network != added.network.Name {
				return &RequestError{"network", added.network.Name, fmt.Sprintf("its route to %s is one of network %q as %s, too: give one of them another \"priority\", or attach to one", d.to, other.network, other.iface)}
			}
			holders[d] = holder{added.network.Name, added.element.Interface}
		}
	}
	return nil
}
