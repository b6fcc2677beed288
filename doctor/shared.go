// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"fmt"

	"github.com/allocnet/allocnet/policy"
)

// sharedRanges reports networks on a shared link whose addresses host-local
// assigns. host-local knows its own host only: two hosts with one configuration
// assign the same addresses.
func sharedRanges(r *Report, networks []network) {
	for _, n := range networks {
		rules, err := policy.Of(n.Network)
		if err == nil && rules.HostRange {
			continue
		}
		for _, p := range n.Chain() {
			if p.PassesHost() && p.IPAMType == "host-local" {
				r.addWarning(n.Path, fmt.Sprintf("network %q is %s with host-local, which knows this host only: another host with the same range assigns the same addresses", n.Name, p.Type),
					"give each host a range of its own (rangeStart, rangeEnd) and set \"allocnet\": {\"hostRange\": true}, or use allocnet-ipam, dhcp or another IPAM plugin that knows all hosts")
			}
		}
	}
}
