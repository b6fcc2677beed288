// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package forwarding

import (
	"fmt"
	"net/netip"
)

// Outward returns what drops packets that allocations of a network of this host alone send elsewhere: of a subnet, by an
// interface of the host.
func (f *Facts) Outward(subnet netip.Prefix, by string) []Obstacle {
	all := netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	if subnet.Addr().Is6() {
		all = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	}
	var found []Obstacle
	for _, s := range f.rulesets {
		if subnet.Addr().Is4() && !s.ipv4 || subnet.Addr().Is6() && !s.ipv6 {
			continue
		}
		for _, chain := range s.forward {
			if v, text := s.decide(chain, &packet{source: subnet, destination: all, from: by}); v == dropped {
				found = append(found, Obstacle{
					Subject: s.name, IsWarning: true, Fix: s.open(subnet),
					Problem: fmt.Sprintf("%s drops forwarded packets: allocations of %s reach nothing outside their bridge, and published ports do not answer", text, subnet),
				})
			}
		}
	}
	if f.IsRejected(subnet) {
		found = append(found, Obstacle{
			Subject: "firewalld", IsWarning: true, Fix: trust(subnet),
			Problem: fmt.Sprintf("has %s in no zone that accepts everything: it rejects what allocations send elsewhere", subnet),
		})
	}
	return found
}

// trust is the command that has firewalld accept everything of a subnet.
func trust(subnet netip.Prefix) string {
	return fmt.Sprintf("firewall-cmd --permanent --zone=trusted --add-source=%s && firewall-cmd --reload", subnet)
}
