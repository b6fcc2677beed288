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
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/isolation"
	"github.com/allocnet/allocnet/policy"
)

// isolatedBeside reports what of this host drops flows that isolation allows, or has packets pass beside it. A mistake in the rules is
// reported with these.
func (d *Doctor) isolatedBeside(r *Report, networks []network, f *forwarding.Facts) {
	rules, _ := isolation.Load(cmp.Or(d.IsolationFile, isolation.DefaultFile))
	var found drops
	for _, n := range networks {
		p, err := policy.Of(n.Network)
		if err != nil || n.by == "" || !p.Isolates() && !p.Narrow && len(rules.Egress) == 0 {
			continue
		}
		for _, subnet := range n.maskedSubnets() {
			for _, o := range n.beside(p.Rules, rules, f, subnet) {
				found.add(n.Name, o)
			}
		}
	}
	for _, o := range found {
		r.addWarning(o.Subject, fmt.Sprintf("network %s: %s", strings.Join(o.networks, ", "), o.Problem), o.Fix)
	}
	foreignPorts(r, networks, netns.PortNames)
}

// beside is what is beside the isolation of a subnet of a network.
func (n network) beside(p policy.Rules, rules isolation.Rules, f *forwarding.Facts, subnet netip.Prefix) []forwarding.Obstacle {
	isPair := n.by == forwarding.Pairs
	isRouted := isPair && p.Level() == isolation.Network || p.Level() == isolation.Strict && len(rules.Allow) > 0 || p.Narrow || len(rules.Egress) > 0
	var found []forwarding.Obstacle
	if isRouted || !isPair && p.Level() == isolation.Network {
		found = f.Neighbours(subnet, n.by, isRouted)
	}
	return append(found, f.Bypasses(subnet, n.by)...)
}

// foreignPorts reports ports of the bridges of isolated networks that no allocation has. names returns those that are no ends of pairs.
func foreignPorts(r *Report, networks []network, names func(bridge string) ([]string, error)) {
	for _, n := range networks {
		p, err := policy.Of(n.Network)
		if err != nil || p.Level() == isolation.None {
			continue
		}
		for _, bridge := range n.bridges {
			ports, err := names(bridge)
			if err != nil {
				r.addUnexamined(bridge, "its ports are not examined: "+err.Error(), "run allocnet doctor again")
			}
			slices.Sort(ports)
			for _, port := range ports {
				problem := fmt.Sprintf("network %q has the isolation %q, and its bridge %s the port %s", n.Name, p.Level(), bridge, port)
				fix := fmt.Sprintf("ip link set %s nomaster, unless what is behind it belongs to the network", port)
				if p.Level() == isolation.Strict {
					r.addError(n.Path, problem+": the host cannot answer for neighbours there, so that its allocations cannot be attached", fix)
				} else {
					r.addWarning(n.Path, problem+": what is behind it counts as the host's side, and its packets to allocations of the bridge pass no rules", fix)
				}
			}
		}
	}
}
