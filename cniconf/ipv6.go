// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniconf

import (
	"encoding/json"
	"net/netip"
	"strings"
)

// IPv6 returns what the network gives its interfaces of IPv6, in words, such as "the range fd00::/64"; empty if its configuration has
// nothing of that. What an IPAM plugin such as dhcp assigns is not known before.
func (n *Network) IPv6() string {
	for _, p := range n.Chain() {
		if p.Type == "loopback" {
			return "the plugin loopback, which assigns ::1"
		}
		if pool, ok := n.poolOf(p); ok {
			for _, r := range pool.Ranges() {
				if r.Subnet.Addr().Is6() {
					return "the range " + r.Subnet.String()
				}
			}
		}
		if found := append(p.prefixes(), p.enabling()...); len(found) > 0 {
			return found[0]
		}
	}
	return ""
}

// prefixes returns the IPv6 addresses that the configuration of a plugin has, and its routes to IPv6 destinations.
func (p Plugin) prefixes() (found []string) {
	var conf struct {
		Addresses []struct{ Address string }
		Routes    []struct{ Dst string }
	}
	_ = json.Unmarshal(p.IPAM, &conf) // the plugin reports a mistake
	for _, a := range conf.Addresses {
		if isIPv6(a.Address) {
			found = append(found, "the address "+a.Address)
		}
	}
	for _, r := range conf.Routes {
		if isIPv6(r.Dst) {
			found = append(found, "a route to "+r.Dst)
		}
	}
	return found
}

func isIPv6(prefix string) bool {
	p, err := netip.ParsePrefix(prefix)
	return err == nil && p.Addr().Is6()
}

// enabling returns the sysctls of a plugin that switch IPv6 on.
func (p Plugin) enabling() (found []string) {
	for key, value := range p.Sysctl {
		if strings.HasSuffix(key, "disable_ipv6") && value == "0" {
			found = append(found, "the sysctl "+key+" 0")
		}
	}
	return found
}
