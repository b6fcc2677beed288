// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package forwarding

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/allocnet/allocnet/cluster/ipam"
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
	interfaces := map[netip.Prefix][]string{}
	for _, c := range pools {
		for _, subnet := range c.Subnets() {
			interfaces[subnet] = f.Interfaces(c)
		}
	}
	subnets := subnetsOf(pools)
	all := f.settings(pools, subnets)
	for _, subnet := range subnets {
		for _, s := range f.rulesets {
			all = append(all, s.obstacles(subnet, interfaces[subnet])...)
		}
		if f.IsRejected(subnet) {
			all = append(all, Obstacle{
				Subject: "firewalld", Problem: fmt.Sprintf("has %s in no zone that accepts everything: packets of other hosts to it are rejected", subnet),
				Fix: trust(subnet),
			})
		}
	}
	return all
}

// subnetsOf are those of pools, each once.
func subnetsOf(pools []*ipam.Config) []netip.Prefix {
	var subnets []netip.Prefix
	for _, c := range pools {
		subnets = append(subnets, c.Subnets()...)
	}
	slices.SortFunc(subnets, netip.Prefix.Compare)
	return slices.Compact(subnets)
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
	isUnused := !slices.ContainsFunc(f.Addresses, func(a Address) bool {
		return slices.ContainsFunc(pools, func(c *ipam.Config) bool { return isGateway(c, a.Prefix.Addr()) })
	})
	switch {
	case hasIPv4 && f.ipv4 == "0":
		set("net.ipv4.ip_forward", 1, isUnused, "is 0: this host forwards nothing to its allocations from other hosts")
	case hasIPv4 && f.Underlay.forwards == "0":
		set(f.Underlay.key("forwarding"), 1, isUnused, "is 0: this host forwards nothing that other hosts send to this interface")
	}
	if hasIPv6 && f.ipv6 == "0" {
		all = append(all, Obstacle{"net.ipv6.conf.all.forwarding", "is 0: this host forwards no IPv6 to its allocations from other hosts", ForwardIPv6, isUnused})
	}
	hasVXLAN := slices.ContainsFunc(pools, func(c *ipam.Config) bool { return c.VXLAN != ipam.VXLAN{} })
	if hasVXLAN && f.Underlay.strict {
		set(f.Underlay.key("rp_filter"), 2, true, "is 1 (strict), or that of all interfaces is: packets that another host routes, and this host answers over VXLAN, are dropped")
	}
	return all
}

// ForwardIPv6 is the command that switches IPv6 forwarding on. Interfaces that have their routes from router advertisements go on with
// them, which a host that forwards ignores otherwise.
const ForwardIPv6 = `for i in $(ip -6 route show proto ra | sed -n 's/.* dev \([^ ]*\).*/\1/p' | sort -u); do sysctl -w "net/ipv6/conf/$i/accept_ra=2"; done; sysctl -w net.ipv6.conf.all.forwarding=1`

// Disabled are the settings of forwarding that are off although the host has attachments, as paths below
// /proc/sys. None of pools is flat.
func (f *Facts) Disabled(pools []*ipam.Config) []string {
	var paths []string
	for _, o := range f.settings(pools, subnetsOf(pools)) {
		if !o.IsWarning {
			paths = append(paths, dotsAndSlashes.Replace(o.Subject))
		}
	}
	return paths
}

// dotsAndSlashes makes a path of a key of sysctl(8), and the other way round.
var dotsAndSlashes = strings.NewReplacer(".", "/", "/", ".")

// key is that of a setting of the interface, as sysctl(8) takes it.
func (i Interface) key(setting string) string {
	return dotsAndSlashes.Replace("net/ipv4/conf/" + i.Name + "/" + setting)
}

// isGateway is whether an address is the gateway of a pool, which the host has as soon as it has an
// attachment.
func isGateway(c *ipam.Config, address netip.Addr) bool {
	return slices.ContainsFunc(c.Ranges, func(r ipam.Range) bool { return r.Gateway == address })
}

// Pairs is the pattern of iptables for the host's ends of pairs of interfaces. The plugin ptp makes one
// for each attachment.
const Pairs = "veth+"

// Interfaces are those that packets of a pool come from: with a gateway, the VXLAN device, and where
// nodes are reached without it that of the host's address. Pairs stands for all of its kind.
func (f *Facts) Interfaces(c *ipam.Config) []string {
	var names []string
	if c.Mode != ipam.ModeVXLAN && f.Underlay.Name != "" {
		names = append(names, f.Underlay.Name)
	}
	if device, ok := f.Devices[c.Pool]; ok {
		names = append(names, device.name)
	}
	for _, a := range f.Addresses {
		name := a.Interface
		if isNamed(name, Pairs) {
			name = Pairs
		}
		if isGateway(c, a.Prefix.Addr()) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// obstacles returns the chains that drop packets inside a subnet.
func (s *ruleset) obstacles(subnet netip.Prefix, interfaces []string) []Obstacle {
	if s.isZones || !s.sees(subnet) {
		return nil
	}
	var all []Obstacle
	for _, chain := range s.base[Forward] {
		if o, ok := s.obstacle(chain, subnet, interfaces); ok {
			all = append(all, o)
		}
	}
	return all
}

// obstacle tells whether a chain drops packets inside a subnet, whatever interface they come from.
func (s *ruleset) obstacle(chain string, subnet netip.Prefix, interfaces []string) (o Obstacle, found bool) {
	from := interfaces
	if len(from) == 0 {
		from = []string{""}
	}
	mayBeAccepted := false
	for _, name := range from {
		p := &packet{source: side{prefix: subnet}, destination: side{prefix: subnet}, from: name, to: from, isWhole: true}
		v, text := s.decide(chain, p)
		mayBeAccepted = mayBeAccepted || p.mayBeAccepted || v != dropped
		if v == dropped && !found {
			found = true
			o = Obstacle{Subject: s.name, Problem: fmt.Sprintf("%s drops packets of other hosts to %s", text, subnet), Fix: s.accept(chain, subnet)}
		}
	}
	if o.IsWarning = found && mayBeAccepted; o.IsWarning {
		o.Problem += ", unless a rule for some of them accepts them"
	}
	return o, found
}
