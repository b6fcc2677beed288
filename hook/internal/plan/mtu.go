// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package plan

import (
	"fmt"
	"strconv"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/selection"
)

// ethernetMTU is what the kernel gives to links.
const ethernetMTU = 1500

// boundMTU holds the MTU of an element to that of its network, and returns the
// bridges that the smaller one would lower, with the network's MTU. A network
// none of whose plugins has the key is left to Element.Bind. unpinned
// returns the least MTU of a bridge; see Engine.unpinnedMTU.
func boundMTU(e selection.Element, chain []cniconf.Plugin, host Host, unpinned func(bridge string) int) (keep map[string]int, err error) {
	if e.MTU == 0 {
		return nil, nil
	}
	keep = map[string]int{}
	for _, p := range chain {
		if p.MTU == nil {
			continue
		}
		limit, err := networkMTU(p, host)
		if err != nil {
			return nil, err
		}
		if p.Type == "bridge" && *p.MTU == 0 {
			limit = max(limit, unpinned(p.Link()))
		}
		if e.MTU > limit {
			return nil, &RequestError{fmt.Sprintf("mtu of network %q", e.Name), strconv.Itoa(e.MTU), fmt.Sprintf("want %s, since the network has %d", mtuRange(limit), limit)}
		}
		if p.Type == "bridge" && e.MTU < limit {
			keep[p.Link()] = limit
		}
	}
	return keep, nil
}

func mtuRange(limit int) string {
	if limit < selection.MinMTU {
		return "none"
	}
	return fmt.Sprintf("%d to %d", selection.MinMTU, limit)
}

// networkMTU is what attachments of a plugin have when they choose none: the
// configured one, else that of the link that it builds on.
func networkMTU(p cniconf.Plugin, host Host) (int, error) {
	if *p.MTU > 0 {
		return *p.MTU, nil
	}
	if p.LinkInContainer || p.Link() == "" {
		return ethernetMTU, nil
	}
	mtu, ok, err := host.LinkMTU(p.Link())
	if err != nil || ok {
		return mtu, err
	}
	return ethernetMTU, nil
}
