// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/allocnet/allocnet/cluster/forwarding"
	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cniconf"
)

// routedPlugin is a plugin whose pool spans hosts, and its network.
type routedPlugin struct {
	cniconf.RoutedPlugin
	network network
}

// routedPools reports what keeps allocations of pools that span hosts from those of other hosts.
func routedPools(r *Report, networks []network, f *forwarding.Facts) {
	var plugins []routedPlugin
	for _, n := range networks {
		if err := n.CheckRouted(); err != nil {
			r.addError(n.Path, err.Error(), "edit "+n.Path)
		}
		for _, p := range n.RoutedPlugins() {
			plugins = append(plugins, routedPlugin{p, n})
		}
	}
	seen, pools := map[string]bool{}, map[string]*ipam.Config{} // by name: several networks may use one
	for i, p := range plugins {
		p.examineMTU(r, f.VXLANMTU(p.Pool))
		for _, earlier := range plugins[:i] {
			p.compare(r, earlier)
		}
		if !seen[p.Pool.Pool] {
			p.examineGuard(r, f.IsGuarded)
			if p.examineAddresses(r, f.Addresses) {
				pools[p.Pool.Pool] = p.Pool
			}
		}
		seen[p.Pool.Pool] = true
	}
	subnetsOfOthers(r, networks)
	obstacles(r, f, slices.Collect(maps.Values(pools)))
}

// examineMTU reports attachments that send larger packets than the VXLAN takes. Those whose MTU follows the uplink do not.
func (p routedPlugin) examineMTU(r *Report, most int) {
	if most <= 0 || p.MTU <= most || p.network.follows {
		return
	}
	r.addWarning(p.network.Path, fmt.Sprintf("network %q has the MTU %d, and the VXLAN of pool %s takes packets of %d: larger ones have to be sent again", p.network.Name, p.MTU, p.Pool.Pool, most),
		fmt.Sprintf("set \"mtu\": %d of the plugin %s, on all hosts", most, p.Type))
}

// examineGuard reports a VXLAN into which allocations of this host send forged packets, or may do so.
func (p routedPlugin) examineGuard(r *Report, isGuarded func(pool string) (bool, error)) {
	if (p.Pool.VXLAN == ipam.VXLAN{}) || isGuarded == nil {
		return
	}
	guarded, err := isGuarded(p.Pool.Pool)
	problem := "nothing drops"
	switch {
	case err != nil:
		problem = fmt.Sprintf("it is not known (%v) whether anything drops", err)
	case guarded:
		return
	}
	r.addError(p.network.Path, fmt.Sprintf("%s what allocations of this host send to UDP port %d of other hosts: they can send packets with any address into pool %s", problem, p.Pool.VXLAN.Port, p.Pool.Pool),
		"systemctl start allocnet; if it runs, allocnet cluster status says why")
}

// compare reports two plugins that a host cannot have both.
func (p routedPlugin) compare(r *Report, earlier routedPlugin) {
	if p.Pool.Pool != earlier.Pool.Pool {
		if (p.Pool.VXLAN != ipam.VXLAN{}) && p.Pool.VXLAN == earlier.Pool.VXLAN {
			r.addError(p.network.Path, fmt.Sprintf("pool %s has the VXLAN %d on port %d, as pool %s of network %q (%s)", p.Pool.Pool, p.Pool.VXLAN.ID, p.Pool.VXLAN.Port, earlier.Pool.Pool, earlier.network.Name, earlier.network.Path),
				"give one of the pools another \"vxlan\": {\"id\": NUMBER}, on all hosts")
		}
		return
	}
	if p.Bridge != earlier.Bridge && p.Bridge != "" && earlier.Bridge != "" {
		r.addError(p.network.Path, fmt.Sprintf("network %q has pool %s on the bridge %s, and network %q (%s) on %s: the host's route for the subnet is by one of them only",
			p.network.Name, p.Pool.Pool, p.Bridge, earlier.network.Name, earlier.network.Path, earlier.Bridge), "give one of the networks another pool, or remove it")
	}
}

// examineAddresses reports interfaces of the host with addresses of the pool's subnets, other than the gateway. It
// returns false if the pool gets no routes for that: what lets its packets through would let those of others in.
func (p routedPlugin) examineAddresses(r *Report, addresses []forwarding.Address) (routed bool) {
	routed = true
	gateways := map[netip.Addr]bool{}
	for i := range p.Pool.Ranges {
		gateways[p.Pool.Ranges[i].Gateway] = true
	}
	for _, subnet := range p.Pool.Subnets() {
		for _, a := range addresses {
			if gateways[a.Prefix.Addr()] || !subnet.Overlaps(a.Prefix) {
				continue
			}
			problem := fmt.Sprintf("subnet %s of pool %s overlaps %s of the interface %s", subnet, p.Pool.Pool, a.Prefix, a.Interface)
			if subnet.Contains(a.Prefix.Addr()) {
				r.addError(p.network.Path, problem, "give the pool another subnet")
				routed = false
			} else {
				r.addWarning(p.network.Path, problem+": other hosts with its addresses are not reached", "give the pool another subnet, unless no other host has an address of it")
			}
		}
	}
	return routed
}

// subnetsOfOthers reports a subnet of which another pool has a part: this host's routes are for all of
// it. That both assign the same addresses is reported elsewhere.
func subnetsOfOthers(r *Report, networks []network) {
	for i, n := range networks {
		for _, earlier := range networks[:i] {
			pairs(n, earlier, func(p poolPair) {
				own, other := p.pool.Shared, p.other.Shared
				if own.Mode == ipam.ModeFlat && other.Mode == ipam.ModeFlat || own.Pool == other.Pool {
					return
				}
				for _, subnet := range own.Subnets() {
					for _, second := range other.Subnets() {
						if subnet.Overlaps(second) {
							r.addError(n.Path, fmt.Sprintf("subnet %s of pool %s overlaps %s of pool %s of network %q (%s), and packets to the one or the other are routed to other hosts", subnet, own.Pool, second, other.Pool, earlier.Name, earlier.Path),
								"give one of the pools another subnet")
						}
					}
				}
			})
		}
	}
}

func obstacles(r *Report, f *forwarding.Facts, pools []*ipam.Config) {
	for _, o := range f.Obstacles(pools) {
		isSame := func(f Finding) bool { return f.Severity == Warning && f.Subject == o.Subject } // as of other networks
		switch {
		case !o.IsWarning:
			r.Findings = slices.DeleteFunc(r.Findings, isSame)
			r.addError(o.Subject, o.Problem, o.Fix)
		case !slices.ContainsFunc(r.Findings, isSame):
			r.addWarning(o.Subject, o.Problem, o.Fix)
		}
	}
}
