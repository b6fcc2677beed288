// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniconf

import (
	"encoding/json"
	"errors"
	"net/netip"
	"slices"
)

// Plugin is the configuration of a plugin, as far as others than the plugin itself read it.
type Plugin struct {
	Type string `json:"-"`
	// Bridge is that of the plugin bridge, which has a default. Empty: it is a mistake.
	Bridge string `json:"bridge"`
	// Master and Device are links of the host that the plugin works on. LinkInContainer: the master is none.
	Master          string `json:"master"`
	Device          string `json:"device"`
	LinkInContainer bool   `json:"linkInContainer"`
	// VLAN is that of the plugin bridge, and VLANID that of the plugin vlan.
	VLAN             int   `json:"vlan"`
	VLANID           int   `json:"vlanId"`
	MTU              int   `json:"mtu"`
	IsGateway        bool  `json:"isGateway"`
	IsDefaultGateway bool  `json:"isDefaultGateway"`
	IPMasq           bool  `json:"ipMasq"`
	HairpinMode      bool  `json:"hairpinMode"`
	PortIsolation    bool  `json:"portIsolation"`
	SNAT             *bool `json:"snat"`
	// Backend and the conditions are those of the plugin portmap.
	Backend      string   `json:"backend"`
	ConditionsV4 []string `json:"conditionsV4"`
	ConditionsV6 []string `json:"conditionsV6"`
	// Sysctl are the parameters of the plugin tuning.
	Sysctl map[string]string `json:"sysctl"`
	// IngressPolicy is that of the plugin firewall.
	IngressPolicy string `json:"ingressPolicy"`

	IPAM     json.RawMessage `json:"ipam"`
	ipamType string
}

// Chain returns the configurations of the network's plugins. A key whose value is a mistake, which the
// plugin reports, is missing.
func (n *Network) Chain() []Plugin {
	n.decode.Do(func() {
		n.chain = make([]Plugin, len(n.List.Plugins))
		for i, plugin := range n.List.Plugins {
			p := &n.chain[i]
			p.Type, p.ipamType = plugin.Network.Type, plugin.Network.IPAM.Type
			err := json.Unmarshal(plugin.Bytes, p) // it goes on after a mistake
			if mistake, ok := errors.AsType[*json.UnmarshalTypeError](err); p.Type == "bridge" && p.Bridge == "" && (!ok || mistake.Field != "bridge") {
				p.Bridge = "cni0"
			}
		}
	})
	return n.chain
}

// isGateway tells whether the plugin gives the host an address in the network's subnets, and routes for them.
func (p Plugin) isGateway() bool {
	return p.Type == "ptp" || p.Type == "bridge" && p.Bridge != "" && (p.IsGateway || p.IsDefaultGateway)
}

// addresses are the keys of the IPAM plugin static.
type addresses struct {
	Addresses []struct {
		Address string     `json:"address"`
		Gateway netip.Addr `json:"gateway"`
	} `json:"addresses"`
	Routes []struct {
		Dst string     `json:"dst"`
		GW  netip.Addr `json:"gw"`
	} `json:"routes"`
}

// addresses returns what IPAM is configured with; none if there is a mistake, which the plugin reports.
func (p Plugin) addresses() (a addresses) {
	if json.Unmarshal(p.IPAM, &a) != nil {
		return addresses{}
	}
	return a
}

// UsesIPAM tells whether a plugin of the network has one of the types of IPAM plugins.
func (n *Network) UsesIPAM(is func(ipam string) bool) bool {
	return slices.ContainsFunc(n.Chain(), func(p Plugin) bool { return is(p.ipamType) })
}

// Gateways returns the gateways that the IPAM plugins of the network are configured with, other
// than those of pools.
func (n *Network) Gateways() []netip.Addr {
	var all []netip.Addr
	for _, p := range n.Chain() {
		configured := p.addresses()
		for _, a := range configured.Addresses {
			all = append(all, a.Gateway.Unmap())
		}
		for _, r := range configured.Routes {
			all = append(all, r.GW.Unmap())
		}
	}
	return slices.DeleteFunc(all, func(a netip.Addr) bool { return !a.IsValid() })
}

// IsGateway tells whether the host has an address in the network's subnets, and routes for them:
// without a configured gateway it has the first one.
func (n *Network) IsGateway() bool { return slices.ContainsFunc(n.Chain(), Plugin.isGateway) }
