// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"fmt"
	"slices"

	"github.com/allocnet/allocnet/policy"
)

// sharedPlugins attach to a link that other hosts share.
var sharedPlugins = []string{"macvlan", "ipvlan", "vlan", "host-device"}

// sharedRanges reports networks on a shared link whose addresses host-local
// assigns. host-local knows its own host only: two hosts with one configuration
// assign the same addresses.
func sharedRanges(r *Report, networks []network) {
	for _, n := range networks {
		rules, err := policy.Of(n.Network)
		if err == nil && rules.HostRange {
			continue
		}
		for _, p := range n.List.Plugins {
			if slices.Contains(sharedPlugins, p.Network.Type) && p.Network.IPAM.Type == "host-local" {
				r.addWarning(n.Path, fmt.Sprintf("network %q is %s with host-local, which knows this host only: another host with the same range assigns the same addresses", n.Name, p.Network.Type),
					"give each host a range of its own (rangeStart, rangeEnd) and set \"allocnet\": {\"hostRange\": true}, or use allocnet-ipam, dhcp or another IPAM plugin that knows all hosts")
			}
		}
	}
}
