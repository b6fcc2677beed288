// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/allocnet/allocnet/cniconf"
)

// OverlappingPools returns the findings of pools of allocnet-ipam that have the same addresses
// as another pool of the networks. The name is that of one pool; empty: all. A pool that
// several networks use is one pool.
func OverlappingPools(networks []*cniconf.Network, name string) []Finding {
	r := &Report{}
	for i, n := range networks {
		for _, earlier := range networks[:i] {
			pairs(describe(n), describe(earlier), func(p poolPair) {
				if name == "" || p.pool.Shared.Pool == name || p.other.Shared.Pool == name {
					p.examine(r)
				}
			})
		}
	}
	r.sort()
	return r.Findings
}

// poolPair is two pools of allocnet-ipam, of different networks.
type poolPair struct {
	network, otherNetwork network
	pool, other           cniconf.Pool
}

// pairs calls do for each two pools of two networks.
func pairs(n, earlier network, do func(poolPair)) {
	for _, pool := range n.pools {
		for _, other := range earlier.pools {
			if pool.Shared != nil && other.Shared != nil && pool.Leases != other.Leases {
				do(poolPair{n, earlier, pool, other})
			}
		}
	}
}

// examine reports ranges with common addresses. Where packets of both networks meet, two
// allocations with one address are an error.
func (p poolPair) examine(r *Report) {
	for _, own := range p.pool.Shared.Ranges {
		for _, other := range p.other.Shared.Ranges {
			if own.End.Less(other.Start) || other.End.Less(own.Start) {
				continue
			}
			problem := fmt.Sprintf("network %q has %s in pool %q, which overlaps %s in pool %q of network %q (%s): both pools assign the same addresses",
				p.network.Name, own.Subnet, p.pool.Shared.Pool, other.Subnet, p.other.Shared.Pool, p.otherNetwork.Name, p.otherNetwork.Path)
			switch link := p.link(); {
			case link != "":
				r.addError(p.network.Path, problem+", on "+link, "use one pool for both networks, or give one of the pools another subnet")
			case p.network.routed && p.otherNetwork.routed:
				r.addError(p.network.Path, problem+", and this host forwards for both", "give one of the pools another subnet")
			default:
				r.addWarning(p.network.Path, problem, "if their links are connected, use one pool for both networks, or give one of the pools another subnet")
			}
		}
	}
}

// link returns what both networks attach to; empty if there is nothing.
func (p poolPair) link() string {
	others := links(p.otherNetwork)
	for _, link := range links(p.network) {
		if slices.Contains(others, link) {
			return link
		}
	}
	return ""
}

// links names what a network's plugins attach to.
func links(n network) []string {
	var all []string
	for _, p := range n.Chain() {
		switch p.Type {
		case "macvlan", "ipvlan":
			all = append(all, "master "+cmp.Or(p.Master, "of the default route"))
		case "vlan":
			all = append(all, withVLAN("master "+cmp.Or(p.Master, "of the default route"), p))
		case "bridge":
			all = append(all, withVLAN("bridge "+p.Bridge, p))
		case "host-device":
			all = append(all, withVLAN("device "+p.Device, p))
		}
	}
	return all
}

func withVLAN(link string, p cniconf.Plugin) string {
	if id := cmp.Or(p.VLAN, p.VLANID); id != 0 {
		link += fmt.Sprintf(", VLAN %d", id)
	}
	return link
}
