// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniconf

import (
	"cmp"
	"encoding/json"
	"net/netip"

	"github.com/containernetworking/cni/libcni"
)

// HostAddress is an address that a plugin gives the host in a subnet of a network: that of a gateway.
type HostAddress struct {
	// Bridge is the link that gets it, with a route to the subnet. Empty: the host's ends of pairs (ptp) get it, without one.
	Bridge string
	// Address has the length of the subnet.
	Address netip.Prefix
}

// HostAddresses returns those of the network that are known before an attachment: not those of DHCP.
func (n *Network) HostAddresses() []HostAddress {
	var all []HostAddress
	for _, plugin := range n.List.Plugins {
		var conf struct {
			Bridge           string `json:"bridge"`
			IsGateway        bool   `json:"isGateway"`
			IsDefaultGateway bool   `json:"isDefaultGateway"`
		}
		if json.Unmarshal(plugin.Bytes, &conf) != nil {
			continue // the plugin reports the mistake
		}
		bridge := ""
		switch {
		case plugin.Network.Type == "bridge" && (conf.IsGateway || conf.IsDefaultGateway):
			bridge = cmp.Or(conf.Bridge, "cni0")
		case plugin.Network.Type != "ptp":
			continue
		}
		for _, address := range n.gatewaysOf(plugin, bridge != "") {
			all = append(all, HostAddress{bridge, address})
		}
	}
	return all
}

// gatewaysOf returns the gateways of the subnets of a plugin. A bridge takes the first address where none is configured.
func (n *Network) gatewaysOf(plugin *libcni.PluginConfig, isBridge bool) (all []netip.Prefix) {
	if pool, ok := n.poolOf(plugin); ok {
		for _, r := range pool.Ranges() {
			if !r.Subnet.IsValid() {
				continue
			}
			if _, _, gateway := r.bounds(); gateway.IsValid() {
				all = append(all, netip.PrefixFrom(gateway, r.Subnet.Bits()))
			}
		}
		return all
	}
	var conf struct {
		IPAM struct {
			Addresses []struct {
				Address netip.Prefix `json:"address"`
				Gateway netip.Addr   `json:"gateway"`
			} `json:"addresses"`
		} `json:"ipam"`
	}
	if json.Unmarshal(plugin.Bytes, &conf) != nil {
		return nil
	}
	for _, a := range conf.IPAM.Addresses {
		gateway := a.Gateway.Unmap()
		if !gateway.IsValid() && isBridge && a.Address.IsValid() {
			gateway = a.Address.Masked().Addr().Next()
		}
		if gateway.IsValid() && a.Address.IsValid() {
			all = append(all, netip.PrefixFrom(gateway, a.Address.Bits()))
		}
	}
	return all
}
