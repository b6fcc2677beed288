// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniconf

import (
	"encoding/json"
	"net/netip"
	"slices"
	"strings"
)

// IPv6 returns what the network gives its interfaces of IPv6, in words, such as "the range fd00::/64"; empty if its configuration has
// nothing of that. What an IPAM plugin such as dhcp assigns is not known before.
func (n *Network) IPv6() string {
	for _, p := range n.Chain() {
		if p.Type == "loopback" {
			return "the plugin loopback, which assigns ::1"
		}
		if pool, ok := p.pool(n.Name); ok {
			for _, r := range pool.Ranges() {
				if r.Subnet.Addr().Is6() {
					return "the range " + r.Subnet.String()
				}
			}
		}
		if uses := p.ipv6(); uses != "" {
			return uses
		}
	}
	return ""
}

// ipv6 returns an IPv6 address that the configuration of a plugin has, or that it asks DHCP servers for, a route to an IPv6 destination, or a sysctl that switches IPv6 on.
func (p Plugin) ipv6() string {
	if p.LeasesIPv6() {
		return "addresses by DHCPv6"
	}
	conf := p.addresses()
	for _, a := range conf.Addresses {
		if isIPv6(a.Address) {
			return "the address " + a.Address
		}
	}
	for _, r := range conf.Routes {
		if isIPv6(r.Dst) {
			return "a route to " + r.Dst
		}
	}
	for key, value := range p.Sysctl {
		if strings.HasSuffix(key, "disable_ipv6") && value == "0" {
			return "the sysctl " + key + " 0"
		}
	}
	return ""
}

// SetsAcceptRA tells whether the plugin sets what its interface does with router advertisements, as the plugin tuning does.
func (p Plugin) SetsAcceptRA() bool {
	for key := range p.Sysctl {
		if strings.HasSuffix(key, "accept_ra") {
			return true
		}
	}
	return false
}

// LeasesIPv6 tells whether servers of DHCPv6 are asked for the addresses of the plugin.
func (p Plugin) LeasesIPv6() bool {
	var conf struct{ Families []string }
	return p.IPAMType == "dhcp" && json.Unmarshal(p.IPAM, &conf) == nil && slices.Contains(conf.Families, "ipv6")
}

func isIPv6(prefix string) bool {
	p, err := netip.ParsePrefix(prefix)
	return err == nil && p.Addr().Is6()
}
