// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package forwarding

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/allocnet/allocnet/ipam"
)

// Obstacle is what drops packets between hosts.
type Obstacle struct {
	// Subject is a setting, or a place for rules.
	Subject string
	Problem string
	// Fix is the command that removes the obstacle.
	Fix string
	// IsWarning is whether packets are dropped for a while only, or only some.
	IsWarning bool
}

// Obstacles returns what drops packets between allocations of pools on different hosts. Flat
// pools have none.
func (f *Facts) Obstacles(pools []*ipam.Config) []Obstacle {
	pools = slices.DeleteFunc(slices.Clone(pools), func(c *ipam.Config) bool { return c.Mode == ipam.ModeFlat })
	var subnets []netip.Prefix
	for _, c := range pools {
		subnets = append(subnets, c.Subnets()...)
	}
	slices.SortFunc(subnets, netip.Prefix.Compare)
	subnets = slices.Compact(subnets)
	all, interfaces := f.settings(pools, subnets), f.interfaces(pools)
	for _, subnet := range subnets {
		for _, s := range f.rulesets {
			all = append(all, s.obstacles(subnet, interfaces)...)
		}
		if f.zones != nil && !isTrusted(f.zones, subnet) {
			all = append(all, Obstacle{
				Subject: "firewalld", Problem: fmt.Sprintf("has %s in no zone that accepts everything: packets of other hosts to it are rejected", subnet),
				Fix: fmt.Sprintf("firewall-cmd --permanent --zone=trusted --add-source=%s && firewall-cmd --reload", subnet),
			})
		}
	}
	return all
}

// settings returns the obstacles in settings of the kernel. Plugins enable forwarding with the first
// attachment.
func (f *Facts) settings(pools []*ipam.Config, subnets []netip.Prefix) []Obstacle {
	var all []Obstacle
	set := func(key string, value int, isWarning bool, problem string) {
		all = append(all, Obstacle{key, problem, fmt.Sprintf("sysctl -w %s=%d", key, value), isWarning})
	}
	hasIPv4 := slices.ContainsFunc(subnets, func(p netip.Prefix) bool { return p.Addr().Is4() })
	hasIPv6 := slices.ContainsFunc(subnets, func(p netip.Prefix) bool { return p.Addr().Is6() })
	isUnused := !slices.ContainsFunc(f.Addresses, func(a Address) bool { return isGateway(pools, a.Prefix.Addr()) })
	switch {
	case hasIPv4 && f.ipv4 == "0":
		set("net.ipv4.ip_forward", 1, isUnused, "is 0: this host forwards nothing to its allocations from other hosts")
	case hasIPv4 && f.Underlay.forwards == "0":
		set("net.ipv4.conf."+f.Underlay.Name+".forwarding", 1, isUnused, "is 0: this host forwards nothing that other hosts send to this interface")
	}
	if hasIPv6 && f.ipv6 == "0" {
		set("net.ipv6.conf.all.forwarding", 1, isUnused, "is 0: this host forwards no IPv6 to its allocations from other hosts")
	}
	hasVXLAN := slices.ContainsFunc(pools, func(c *ipam.Config) bool { return c.VXLAN != ipam.VXLAN{} })
	if hasVXLAN && f.Underlay.strict {
		set("net.ipv4.conf."+f.Underlay.Name+".rp_filter", 2, true, "is 1 (strict), or that of all interfaces is: packets that another host routes, and this host answers over VXLAN, are dropped")
	}
	return all
}

// isGateway is whether an address is the gateway of a pool, which the host has as soon as it has an
// attachment.
func isGateway(pools []*ipam.Config, address netip.Addr) bool {
	return slices.ContainsFunc(pools, func(c *ipam.Config) bool {
		return slices.ContainsFunc(c.Ranges, func(r ipam.Range) bool { return r.Gateway == address })
	})
}

// interfaces are those that packets of the pools come from or go to: with a gateway, the VXLAN
// devices, and that of the host's address.
func (f *Facts) interfaces(pools []*ipam.Config) []string {
	names := []string{f.Underlay.Name}
	for _, device := range f.Devices {
		names = append(names, device.name)
	}
	for _, a := range f.Addresses {
		if isGateway(pools, a.Prefix.Addr()) {
			names = append(names, a.Interface)
		}
	}
	return names
}

// obstacles returns the chains that drop packets inside a subnet.
func (s *ruleset) obstacles(subnet netip.Prefix, interfaces []string) []Obstacle {
	if subnet.Addr().Is4() && !s.ipv4 || subnet.Addr().Is6() && !s.ipv6 {
		return nil
	}
	var all []Obstacle
	for _, chain := range s.forward {
		p := &packet{subnet: subnet, interfaces: interfaces}
		v, text := s.decide(chain, p)
		if v != dropped {
			continue
		}
		o := Obstacle{Subject: s.name, Problem: fmt.Sprintf("%s drops packets of other hosts to %s", text, subnet), Fix: s.accept(subnet), IsWarning: p.mayBeAccepted}
		if o.IsWarning {
			o.Problem += ", unless a rule for interfaces accepts them"
		}
		all = append(all, o)
	}
	return all
}
