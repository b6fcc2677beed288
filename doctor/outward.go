// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"github.com/allocnet/allocnet/cluster/forwarding"
	"github.com/allocnet/allocnet/hook"
)

// unread reports what of the host could not be read, if it forwards packets of a network: what that says is not reported.
func unread(r *Report, networks []network, errs []error) {
	if !slices.ContainsFunc(networks, func(n network) bool { return n.routed || len(n.RoutedPlugins()) > 0 }) {
		return
	}
	for _, err := range errs {
		r.addUnexamined("forwarding", "is not examined in full: "+err.Error(), "run allocnet doctor again")
	}
}

// outward reports what keeps allocations of networks of this host alone from others: rules of other programs, packets that
// are too large for the host's interface, and ports that no packet reaches.
func outward(r *Report, networks []network, f *forwarding.Facts) {
	kind := hook.IPTables()
	_, missing := exec.LookPath("iptables-restore")
	var found drops
	for _, n := range networks {
		largePackets(r, n, f.Underlay)
		unreachedPorts(r, n)
		if len(n.RoutedPlugins()) > 0 || n.mtu == 0 || !n.routed {
			continue
		}
		l := forwarding.Local{By: n.by, Publishes: slices.Contains(n.PluginTypes(), "portmap"), HasFirewall: slices.Contains(n.PluginTypes(), "firewall"), IPTables: kind, WithoutIPTables: missing != nil}
		for _, l.Subnet = range n.maskedSubnets() {
			for _, o := range f.Outward(l) {
				found.add(n.Name, o)
			}
		}
	}
	for _, d := range found {
		r.addWarning(d.Subject, fmt.Sprintf("network %s: %s", strings.Join(d.networks, ", "), d.Problem), d.Fix)
	}
}

// drop is what drops packets of networks, whose names are quoted. Fix has the commands for all of them.
type drop struct {
	forwarding.Obstacle
	networks []string
}

type drops []drop

// add adds the obstacle of a network, or the network to one that others have as well.
func (d *drops) add(network string, o forwarding.Obstacle) {
	name := strconv.Quote(network)
	at := slices.IndexFunc(*d, func(other drop) bool { return other.Subject == o.Subject && other.Problem == o.Problem })
	if at < 0 {
		*d = append(*d, drop{o, []string{name}})
		return
	}
	same := &(*d)[at]
	same.Fix += "; " + o.Fix
	if !slices.Contains(same.networks, name) {
		same.networks = append(same.networks, name)
	}
}

// largePackets reports a network whose packets the host's interface has to fragment, or drops: where a router on the way
// sends no ICMP, large transfers then stop.
func largePackets(r *Report, n network, uplink forwarding.Interface) {
	if !n.routed || len(n.RoutedPlugins()) > 0 || uplink.MTU <= 0 || n.mtu <= uplink.MTU || n.follows {
		return
	}
	r.addWarning(n.Path, fmt.Sprintf("network %q has the MTU %d, and %s, by which the host sends, one of %d: large transfers stop where no ICMP comes back", n.Name, n.mtu, uplink.Name, uplink.MTU),
		fmt.Sprintf("set \"mtu\": %d of the plugin %s in %s", uplink.MTU, n.PluginTypes()[0], n.Path))
}

// unreachedPorts reports a network whose published ports do not answer: answers do not come back by the host.
func unreachedPorts(r *Report, n network) {
	first := n.Chain()[0]
	if !slices.Contains(n.PluginTypes(), "portmap") || !first.PassesHost() {
		return
	}
	r.addWarning(n.Path, fmt.Sprintf("network %q: published ports do not answer: the plugin %s sends past the host", n.Name, first.Type),
		"remove the plugin portmap from "+n.Path+", and use the addresses of allocations")
}
