// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package plan

import (
	"fmt"
	"slices"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/policy"
)

// vxlanOverhead is what VXLAN adds to a packet over IPv6, which is more than over IPv4.
const vxlanOverhead = 14 + 8 + 8 + 40

// uplinkMTU returns the MTU that a network takes from the default route of the host; 0 if it has one of its own.
func (p *Attachment) uplinkMTU(host Host) (int, error) {
	if p.rules.MTUFrom != policy.MTUFromUplink {
		return 0, nil
	}
	mtu, err := host.UplinkMTU()
	if err != nil {
		return 0, err
	}
	if mtu == 0 {
		return 0, errdefs.As(errdefs.Refused, fmt.Errorf("network %q: mtuFrom %q in %s: the host has no default route: add one, or set \"mtu\" of the plugin", p.network.Name, policy.MTUFromUplink, p.network.Path))
	}
	for _, pool := range p.network.Pools() {
		if pool.Shared == nil || !pool.Shared.Mode.HasVXLAN() {
			continue
		}
		through, err := vxlanMTU(host, pool.Shared.Pool)
		if err != nil {
			return 0, err
		}
		if through == 0 {
			through = mtu - vxlanOverhead
		}
		mtu = min(mtu, through)
	}
	return mtu, nil
}

// vxlanMTU is that of a pool's VXLAN device; 0 if the agent has not made it yet.
func vxlanMTU(host Host, pool string) (int, error) {
	interfaces, err := host.Interfaces()
	at := slices.IndexFunc(interfaces, func(i netns.Interface) bool { return i.Kind == "vxlan" && i.Alias == "allocnet pool "+pool })
	if err != nil || at < 0 {
		return 0, err
	}
	return interfaces[at].MTU, nil
}

// withMTU returns a chain whose first plugin has an MTU as if it were configured with it; 0 changes nothing.
func withMTU(chain []cniconf.Plugin, mtu int) []cniconf.Plugin {
	if mtu == 0 {
		return chain
	}
	chain = slices.Clone(chain)
	chain[0].MTU = &mtu
	return chain
}
