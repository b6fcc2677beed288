// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"encoding/json"
	"slices"

	"github.com/containernetworking/cni/libcni"
)

// UsesDHCP tells whether a network has its addresses by leases of DHCP, which end unless they are extended.
func UsesDHCP(list *libcni.NetworkConfigList) bool {
	return slices.ContainsFunc(list.Plugins, func(p *libcni.PluginConfig) bool { return p.Network.IPAM.Type == dhcpIPAM })
}

// besideLease are the types that do not depend on addresses: a server may give others while the attachment lives.
var besideLease = []string{"bridge", "macvlan", "vlan", "tuning", "bandwidth"}

// supportsLease refuses what the addresses of a network with leases are needed for.
func supportsLease(list *libcni.NetworkConfigList) error {
	if !UsesDHCP(list) {
		return nil
	}
	for _, p := range list.Plugins {
		if p.Network.Type == "ipvlan" {
			return unsupported(p.Network.Type, "has the MAC of its master, where answers of DHCP servers go")
		}
		if !slices.Contains(besideLease, p.Network.Type) {
			return unsupported(p.Network.Type, "depends on addresses, which a lease of DHCP may change")
		}
		var conf struct{ IsGateway, IsDefaultGateway, IPMasq bool }
		if err := json.Unmarshal(p.Bytes, &conf); err != nil {
			return unsupported(p.Network.Type, err.Error())
		}
		if conf.IsGateway || conf.IsDefaultGateway || conf.IPMasq {
			return unsupported(p.Network.Type, "isGateway, isDefaultGateway and ipMasq depend on addresses, which a lease of DHCP may change")
		}
	}
	return nil
}

// LeaseKey returns a key of a network that only allocnet reads, and not the plugin dhcp; empty if it has none.
func LeaseKey(list *libcni.NetworkConfigList) string {
	for _, p := range list.Plugins {
		var conf struct{ IPAM map[string]json.RawMessage }
		if p.Network.IPAM.Type != dhcpIPAM || json.Unmarshal(p.Bytes, &conf) != nil {
			continue
		}
		for _, key := range []string{"identity", "hostname", "families"} {
			if conf.IPAM[key] != nil {
				return key
			}
		}
	}
	return ""
}
