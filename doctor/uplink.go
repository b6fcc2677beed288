// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/allocnet/allocnet/cluster/forwarding"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/policy"
)

// uplinks reports what options of networks ask of the host's own interfaces and what these do not have, and bridges from which packets
// are too large for the default route. Why the links are unknown is reported with the subnets of the host.
func uplinks(r *Report, networks []network, uplink forwarding.Interface, links func() ([]netns.Interface, error)) {
	own, err := links()
	if err != nil {
		return
	}
	for _, n := range networks {
		rules, err := policy.Of(n.Network)
		if err != nil {
			continue // reported with the keys
		}
		egressElsewhere(r, n, rules, own)
		if p := rules.PublishAddress; p != nil && netns.Index(own, p.Interface) < 0 {
			r.addError(n.Path, fmt.Sprintf("network %q publishes addresses on %s (\"publishAddress\"), which this host does not have: no allocation with ports is attached to it", n.Name, p.Interface),
				"correct \"interface\" in "+n.Path)
		}
		if rules.Publish == policy.PublishBoth && !slices.ContainsFunc(own, hasBothFamilies) {
			r.addWarning(n.Path, fmt.Sprintf("network %q publishes ports on both families (\"publish\": %q), and no interface of this host has addresses of both", n.Name, rules.Publish),
				"give an interface of the host an address of the other family, or remove \"publish\" from "+n.Path)
		}
		if rules.MTUFrom != "" && uplink.MTU <= 0 {
			r.addError(n.Path, fmt.Sprintf("network %q takes its MTU from the default route of the host (\"mtuFrom\": %q), and the host has no default route: nothing is attached to it", n.Name, rules.MTUFrom),
				"add a default route, or set \"mtu\" of the plugin in "+n.Path)
		}
		largeBridges(r, n, uplink, own)
	}
}

// egressElsewhere reports addresses that packets of a network leave with and that the host does not have. Who routes one to the host
// needs it on no interface, so this is no error.
func egressElsewhere(r *Report, n network, rules policy.Source, own []netns.Interface) {
	for _, address := range rules.EgressAddress.Addresses() {
		has := func(i netns.Interface) bool {
			return slices.ContainsFunc(i.Addresses, func(p netip.Prefix) bool { return p.Addr() == address })
		}
		if !slices.ContainsFunc(own, has) {
			r.addWarning(n.Path, fmt.Sprintf("network %q: packets leave with the address %s (\"egressAddress\"), which this host does not have: answers come back only if others route it to this host", n.Name, address),
				fmt.Sprintf("give the host the address, as in: ip address add %s dev lo; or correct \"egressAddress\" in %s", netip.PrefixFrom(address, address.BitLen()), n.Path))
		}
	}
}

func hasBothFamilies(i netns.Interface) bool {
	has := func(is4 bool) bool {
		return slices.ContainsFunc(i.Addresses, func(p netip.Prefix) bool { return p.Addr().Is4() == is4 && !p.Addr().IsLoopback() })
	}
	return has(true) && has(false)
}

// largeBridges reports bridges of networks whose MTU is larger than that of the default route, unless the configuration has it: then that is reported.
func largeBridges(r *Report, n network, uplink forwarding.Interface, own []netns.Interface) {
	if !n.routed || len(n.RoutedPlugins()) > 0 || uplink.MTU <= 0 || n.mtu > uplink.MTU && !n.follows {
		return
	}
	for _, i := range own {
		if i.Kind == "bridge" && slices.Contains(n.bridges, i.Name) && i.MTU > uplink.MTU {
			r.addWarning(i.Name, fmt.Sprintf("the bridge of network %q has the MTU %d, and %s, by which the host sends, one of %d: large transfers stop where no ICMP comes back", n.Name, i.MTU, uplink.Name, uplink.MTU),
				fmt.Sprintf("ip link set %s mtu %d, and attach again what is attached with more", i.Name, uplink.MTU))
		}
	}
}
