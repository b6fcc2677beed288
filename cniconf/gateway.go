// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniconf

import (
	"encoding/json"
	"net/netip"
	"slices"
)

// UsesIPAM tells whether a plugin of the network has one of the types of IPAM plugins.
func (n *Network) UsesIPAM(is func(ipam string) bool) bool {
	for _, plugin := range n.List.Plugins {
		if is(plugin.Network.IPAM.Type) {
			return true
		}
	}
	return false
}

// Gateways returns the gateways that the IPAM plugins of the network are configured with, other
// than those of pools.
func (n *Network) Gateways() []netip.Addr {
	var all []netip.Addr
	for _, plugin := range n.List.Plugins {
		var conf struct {
			IPAM struct {
				Addresses []struct {
					Gateway netip.Addr `json:"gateway"`
				} `json:"addresses"`
				Routes []struct {
					GW netip.Addr `json:"gw"`
				} `json:"routes"`
			} `json:"ipam"`
		}
		if json.Unmarshal(plugin.Bytes, &conf) != nil { // the plugin reports the mistake
			continue
		}
		for _, a := range conf.IPAM.Addresses {
			all = append(all, a.Gateway.Unmap())
		}
		for _, r := range conf.IPAM.Routes {
			all = append(all, r.GW.Unmap())
		}
	}
	return slices.DeleteFunc(all, func(a netip.Addr) bool { return !a.IsValid() })
}

// IsGateway tells whether the host has an address in the network's subnets, and routes for them:
// without a configured gateway it has the first one.
func (n *Network) IsGateway() bool {
	for _, plugin := range n.List.Plugins {
		var conf struct {
			IsGateway        bool `json:"isGateway"`
			IsDefaultGateway bool `json:"isDefaultGateway"`
		}
		if plugin.Network.Type == "ptp" || plugin.Network.Type == "bridge" && json.Unmarshal(plugin.Bytes, &conf) == nil && (conf.IsGateway || conf.IsDefaultGateway) {
			return true
		}
	}
	return false
}
