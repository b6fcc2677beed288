// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/allocnet/allocnet/cluster/forwarding"
	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/policy"
)

// network is a network with the parts of its configuration that the
// examination needs.
type network struct {
	*cniconf.Network
	bridges []string
	pools   []cniconf.Pool
	// routed is whether the host forwards packets for the network.
	routed bool
	// mtu is that of the interfaces of bridge and ptp; 0 of others.
	mtu int
	// follows is whether they have that of the default route.
	follows bool
	// by is the interface of the host by which bridge and ptp send.
	by string
	// hairpin is whether a bridge returns packets to the port that they came from.
	hairpin bool
	// isolated is whether firewall keeps the ports of a bridge apart, and apart whether the bridge does.
	isolated, apart bool
	// unmasqueraded is whether ports are published to the allocations of a bridge without masquerading connections of
	// their neighbours.
	unmasqueraded bool
	// filtered is whether nftables publishes ports, and conditions under which; empty if under none.
	filtered   bool
	conditions string
}

// answersDirectly tells whether an allocation's answers to its neighbours on a bridge do not come back by the host.
func answersDirectly(p cniconf.Plugin) bool {
	return p.Type == "portmap" && (p.SNAT != nil && !*p.SNAT || p.Backend == "nftables")
}

// defaultMTU is what the kernel gives a pair of interfaces.
const defaultMTU = 1500

func (d *Doctor) networks(r *Report) []network {
	catalog, err := cniconf.Load(d.ConfDirs...)
	if err != nil {
		dirs := strings.Join(cniconf.Present(d.ConfDirs), " ")
		r.addError(dirs, err.Error(), "mkdir -p "+dirs+", and put network configurations there")
		return nil
	}
	for _, broken := range catalog.Broken {
		r.addError("CNI configuration", broken.Error(), "edit "+broken.Path)
	}
	for _, shadowed := range catalog.Shadowed {
		r.addError(shadowed.Path, fmt.Sprintf("is not used: an earlier file has the name %q, too", shadowed.Name),
			"give the network another name, or remove the file")
	}
	if len(catalog.Networks)+len(catalog.Broken) == 0 {
		r.addWarning(strings.Join(d.ConfDirs, " "), "there are no network configurations", "put a .conflist there, or set --conf-dir to the directory that has them")
	}
	d.keys(r, catalog)
	d.exposed(r, catalog)
	d.unread(r, catalog)
	d.forgeable(r, catalog)
	d.unreadJobs(r, catalog)
	d.unlisted(r, catalog)
	var networks []network
	for _, n := range catalog.Networks {
		networks = append(networks, describe(n))
	}
	return networks
}

// keys reports keys of networks that nothing reads, or that are there twice.
func (d *Doctor) keys(r *Report, c *cniconf.Catalog) {
	for _, n := range c.Networks {
		if d.CheckKeys != nil {
			if err := d.CheckKeys(n); err != nil {
				r.addError(n.Path, fmt.Sprintf("network %q: %v", n.Name, err), "edit "+n.Path)
			}
		}
		if d.Warnings != nil {
			for _, warning := range d.Warnings(n) {
				r.addWarning(n.Path, fmt.Sprintf("network %q: %s", n.Name, warning), "correct the key, or remove it")
			}
		}
	}
}

func describe(n *cniconf.Network) network {
	d := network{Network: n}
	for _, p := range n.Chain() {
		d.routed = d.routed || p.IsGateway || p.IsDefaultGateway || p.IPMasq || p.Type == "ptp" || p.Type == "portmap"
		d.hairpin, d.apart = d.hairpin || p.HairpinMode, d.apart || p.PortIsolation
		d.isolated = d.isolated || p.Type == "firewall" && p.IngressPolicy == "isolated"
		d.unmasqueraded = d.unmasqueraded || len(d.bridges) > 0 && answersDirectly(p)
		if p.Type == "portmap" && p.Backend == "nftables" {
			d.filtered, d.conditions = true, strings.Join(slices.Concat(p.ConditionsV4, p.ConditionsV6), " ")
		}
		if p.Type == "bridge" || p.Type == "ptp" {
			d.mtu = cmp.Or(p.FixedMTU(), defaultMTU)
		}
		if p.Type == "bridge" && p.Bridge != "" {
			d.bridges = append(d.bridges, p.Bridge)
		}
		d.by = cmp.Or(d.by, gatewayName(p))
	}
	d.pools = n.Pools()
	rules, err := policy.Of(n) // the error is reported with the keys
	d.follows = err == nil && rules.MTUFrom == policy.MTUFromUplink
	return d
}

func (n network) ranges() []cniconf.AddressRange {
	var all []cniconf.AddressRange
	for _, p := range n.pools {
		all = append(all, p.Ranges()...)
	}
	return all
}

// maskedSubnets are those of its ranges as routes have them, each once.
func (n network) maskedSubnets() (all []netip.Prefix) {
	for _, a := range n.ranges() {
		if subnet := a.Subnet.Masked(); !slices.Contains(all, subnet) {
			all = append(all, subnet)
		}
	}
	return all
}

// gatewayName returns the interface of the host from which packets of a plugin come; empty if there is none.
func gatewayName(p cniconf.Plugin) string {
	switch {
	case p.Type == "ptp":
		return forwarding.Pairs
	case p.Type != "bridge":
		return ""
	case p.VLAN != 0:
		return fmt.Sprintf("%s.%d", p.Bridge, p.VLAN)
	}
	return p.Bridge
}

// crowd is how many attachments of a network make each further one slower by the IPv6 of all.
const crowd = 100

// crowdedLinks reports networks without IPv6 addresses whose many interfaces have link-local ones: what each of them announces
// reaches all others.
func crowdedLinks(r *Report, networks []network, attachments map[string]int) {
	for _, n := range networks {
		rules, err := policy.Of(n.Network)
		if err != nil || rules.IPv6 != "" || rules.AcceptRA || n.IPv6() != "" || attachments[n.Name] <= crowd {
			continue
		}
		r.addWarning(n.Path, fmt.Sprintf("network %q: its %d attachments have no IPv6 but link-local addresses, which slow down each attach and detach", n.Name, attachments[n.Name]),
			fmt.Sprintf("set \"allocnet\": {\"ipv6\": %q} in %s, or %q if tasks need them", policy.IPv6Off, n.Path, policy.IPv6LinkLocal))
	}
}

// overlaps reports each pair of networks with one bridge or with overlapping
// subnets, and conditions of one that are of all.
func overlaps(r *Report, networks []network) {
	for i, n := range networks {
		for _, earlier := range networks[:i] {
			sharedBridges(r, n, earlier)
			sharedSubnets(r, n, earlier)
		}
	}
	sharedConditions(r, networks)
}

// sharedConditions reports conditions that other networks do not have: the plugin portmap applies those of its last ADD with
// nftables to all published ports.
func sharedConditions(r *Report, networks []network) {
	for _, n := range networks {
		differs := func(other network) bool { return other.filtered && other.conditions != n.conditions }
		if n.conditions != "" && slices.ContainsFunc(networks, differs) {
			r.addWarning(n.Path, fmt.Sprintf("network %q: with nftables its conditions are of the published ports of all networks, until an allocation of another network is attached", n.Name),
				"write them for \"backend\": \"iptables\" in "+n.Path+", or give all networks the same")
		}
	}
}

func sharedBridges(r *Report, n, earlier network) {
	for _, bridge := range n.bridges {
		if slices.Contains(earlier.bridges, bridge) {
			r.addError(n.Path, fmt.Sprintf("network %q has the bridge %s of network %q (%s)", n.Name, bridge, earlier.Name, earlier.Path),
				"give one of them a bridge of its own")
		}
	}
}

func sharedSubnets(r *Report, n, earlier network) {
	pairs(n, earlier, func(p poolPair) { p.examine(r) })
	for _, pool := range n.pools {
		for _, other := range earlier.pools {
			if pool.Shared == nil || other.Shared == nil {
				overlapping(r, n, earlier, pool, other)
			}
		}
	}
}

func overlapping(r *Report, n, earlier network, pool, earlierPool cniconf.Pool) {
	for _, own := range pool.Ranges() {
		for _, other := range earlierPool.Ranges() {
			if own.Subnet.Overlaps(other.Subnet) {
				r.addError(n.Path, fmt.Sprintf("subnet %s of network %q overlaps %s of network %q (%s): both assign the same addresses", own.Subnet, n.Name, other.Subnet, earlier.Name, earlier.Path),
					"give one of them another subnet")
			}
		}
	}
}
