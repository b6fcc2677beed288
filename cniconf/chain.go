// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniconf

import (
	"encoding/json"
	"errors"
	"net/netip"
	"slices"

	"github.com/containernetworking/cni/libcni"
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
	// VLAN and VLANTrunk are those of the plugin bridge, and VLANID that of the plugin vlan.
	VLAN      int             `json:"vlan"`
	VLANTrunk json.RawMessage `json:"vlanTrunk"`
	VLANID    int             `json:"vlanId"`
	// MTU is nil without the key, which is needed to choose another one for an attachment.
	MTU              *int  `json:"mtu"`
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
	// Sysctl are the parameters of the plugin tuning, and Args those that come before them.
	Sysctl map[string]string `json:"sysctl"`
	Args   struct {
		CNI struct {
			Sysctl map[string]string `json:"sysctl"`
		} `json:"cni"`
	} `json:"args"`
	// IngressPolicy is that of the plugin firewall.
	IngressPolicy string `json:"ingressPolicy"`
	limits
	// Capabilities are those that the plugin is given, by name.
	Capabilities map[string]bool `json:"capabilities"`

	IPAM     json.RawMessage `json:"ipam"`
	IPAMType string          `json:"-"`
}

// Chain returns the configurations of the network's plugins, which it decodes once.
func (n *Network) Chain() []Plugin {
	return Derive(n, chainKey{}, func() []Plugin { return Chain(n.List) })
}

type chainKey struct{}

// Chain returns the configurations of the plugins of a conflist. A key whose value is a mistake, which the
// plugin reports, is missing.
func Chain(list *libcni.NetworkConfigList) []Plugin {
	chain := make([]Plugin, len(list.Plugins))
	for i, plugin := range list.Plugins {
		p := &chain[i]
		p.Type, p.IPAMType = plugin.Network.Type, plugin.Network.IPAM.Type
		err := json.Unmarshal(plugin.Bytes, p) // it goes on after a mistake
		if mistake, ok := errors.AsType[*json.UnmarshalTypeError](err); p.Type == "bridge" && p.Bridge == "" && (!ok || mistake.Field != "bridge") {
			p.Bridge = "cni0"
		}
	}
	return chain
}

// Link is the host's link that the plugin builds on; empty if there is none.
func (p Plugin) Link() string {
	if p.Type == "bridge" {
		return p.Bridge
	}
	return p.Master
}

// FixedMTU is the MTU that the plugin is configured with; 0: none.
func (p Plugin) FixedMTU() int {
	if p.MTU == nil {
		return 0
	}
	return *p.MTU
}

// HasEnd tells whether the host has an end of each attachment by which it knows its addresses: a port of a bridge without VLANs, or
// a pair that the host routes to.
func (p Plugin) HasEnd() bool { return p.Type == "bridge" && p.VLAN == 0 || p.Type == "ptp" }

// PassesHost tells whether interfaces of the plugin send to a link that other hosts share, past this one.
func (p Plugin) PassesHost() bool { return slices.Contains(passesHost, p.Type) }

var passesHost = []string{"macvlan", "ipvlan", "vlan", "host-device"}

// Masquerades tells whether packets that leave the plugin's network get an address of the host.
func (p Plugin) Masquerades() bool { return p.IPMasq && (p.Type == "bridge" || p.Type == "ptp") }

// MapsPorts tells whether the plugin publishes ports that an attachment asks for.
func (p Plugin) MapsPorts() bool { return p.Type == "portmap" && p.Capabilities["portMappings"] }

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
	Routes []Route `json:"routes"`
}

// Route is one that an IPAM plugin is configured with.
type Route struct {
	Dst      string     `json:"dst"`
	GW       netip.Addr `json:"gw"`
	Table    int        `json:"table"`
	Priority int        `json:"priority"`
}

// Routes returns those of the IPAM plugin; none if there is a mistake, which the plugin reports.
func (p Plugin) Routes() []Route { return p.addresses().Routes }

// addresses returns what IPAM is configured with; none if there is a mistake, which the plugin reports.
func (p Plugin) addresses() (a addresses) {
	if json.Unmarshal(p.IPAM, &a) != nil {
		return addresses{}
	}
	return a
}

// UsesIPAM tells whether a plugin of the network has one of the types of IPAM plugins.
func (n *Network) UsesIPAM(is func(ipam string) bool) bool {
	return slices.ContainsFunc(n.Chain(), func(p Plugin) bool { return is(p.IPAMType) })
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
