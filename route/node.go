// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package route

import (
	"fmt"
	"net/netip"
)

// nodes are the VXLAN devices of other hosts. A host that names the MAC or the address of another
// would get its packets.
type nodes struct {
	addresses map[string]netip.Addr
	macs      map[netip.Addr]string
}

// nodesOf returns one host for each MAC and each address: the one whose packets are sent there now,
// else the first that was picked.
func nodesOf(picks []pick, installed []forward) nodes {
	n := nodes{map[string]netip.Addr{}, map[netip.Addr]string{}}
	before := map[forward]bool{}
	for _, f := range installed {
		before[f] = true
	}
	for _, first := range []bool{true, false} {
		for i := range picks {
			if k := &picks[i]; k.isOverlay() && before[k.forward] == first {
				n.claim(k.forward.mac, k.forward.to)
			}
		}
	}
	return n
}

func (n nodes) claim(mac string, a netip.Addr) {
	if _, taken := n.addresses[mac]; taken {
		return
	}
	if _, taken := n.macs[a]; taken {
		return
	}
	n.addresses[mac], n.macs[a] = a, mac
}

// refuse returns whose MAC or address a forward has, if that is another host's.
func (n nodes) refuse(f forward) string {
	switch {
	case n.macs[f.to] != f.mac && n.macs[f.to] != "":
		return fmt.Sprintf("the address %s is that of the node with the MAC %s", f.to, n.macs[f.to])
	case n.addresses[f.mac] != f.to:
		return fmt.Sprintf("the MAC %s is that of the node %s", f.mac, n.addresses[f.mac])
	}
	return ""
}
