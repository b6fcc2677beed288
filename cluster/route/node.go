// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package route

import (
	"fmt"
	"net/netip"
)

// nodes are the addresses of other hosts by the MACs of their VXLAN devices. The MACs are derived, but who
// chooses among enough IPv6 addresses finds one with the MAC of another host, and would get its packets.
type nodes map[string]netip.Addr

// nodesOf returns one host for each MAC: the one whose packets are sent there now, else the first that
// was picked.
func nodesOf(picks []pick, installed []forward) nodes {
	n := nodes{}
	before := map[forward]bool{}
	for _, f := range installed {
		before[f] = true
	}
	for _, first := range []bool{true, false} {
		for i := range picks {
			k := &picks[i]
			if _, taken := n[k.forward.mac]; !taken && k.isOverlay() && before[k.forward] == first {
				n[k.forward.mac] = k.forward.to
			}
		}
	}
	return n
}

// refuse returns whose MAC a forward has, if that is another host's.
func (n nodes) refuse(f forward) string {
	if n[f.mac] != f.to {
		return fmt.Sprintf("the MAC %s of its VXLAN device is also that of the node %s", f.mac, n[f.mac])
	}
	return ""
}
