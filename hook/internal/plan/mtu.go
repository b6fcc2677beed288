// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package plan

import (
	"fmt"
	"strconv"

	"github.com/containernetworking/cni/libcni"

	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/selection"
)

// ethernetMTU is what the kernel gives to links.
const ethernetMTU = 1500

// boundMTU holds the MTU of an element to that of its network, and returns the
// bridges that the smaller one would lower, with the network's MTU. A network
// none of whose plugins has the key is left to Element.Bind. unpinned
// returns the least MTU of a bridge; see Engine.unpinnedMTU.
func boundMTU(e selection.Element, list *libcni.NetworkConfigList, host Host, unpinned func(bridge string) int) (keep map[string]int, err error) {
	if e.MTU == 0 {
		return nil, nil
	}
	keep = map[string]int{}
	for _, p := range list.Plugins {
		conf, err := onrecord.DecodePlugin(p)
		if err != nil || conf.MTU == nil { // the plugin will say what is wrong
			continue
		}
		limit, err := networkMTU(conf, host)
		if err != nil {
			return nil, err
		}
		if conf.Type == "bridge" && *conf.MTU == 0 {
			limit = max(limit, unpinned(conf.Link()))
		}
		if e.MTU > limit {
			return nil, &RequestError{fmt.Sprintf("mtu of network %q", e.Name), strconv.Itoa(e.MTU), fmt.Sprintf("want %s, since the network has %d", mtuRange(limit), limit)}
		}
		if conf.Type == "bridge" && e.MTU < limit {
			keep[conf.Link()] = limit
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
func networkMTU(c onrecord.Plugin, host Host) (int, error) {
	if *c.MTU > 0 {
		return *c.MTU, nil
	}
	if c.LinkInContainer || c.Link() == "" {
		return ethernetMTU, nil
	}
	mtu, ok, err := host.LinkMTU(c.Link())
	if err != nil || ok {
		return mtu, err
	}
	return ethernetMTU, nil
}
