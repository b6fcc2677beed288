// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniconf

import "slices"

// Device is a link of the host that connects the attachments to a network.
type Device struct {
	// Plugin is the type of the plugin that uses it.
	Plugin string
	// Name is that of the link. Empty: the link of the default route.
	Name string
	// Bridge is whether the plugin creates it as a bridge. Otherwise it is a master, which
	// the host has to have.
	Bridge bool
}

// Devices returns the bridges and masters of the network, in the order of its plugins. Other
// plugins have none, and neither has one whose master is in the container.
func (n *Network) Devices() []Device {
	var all []Device
	for _, p := range n.Chain() {
		switch {
		case p.Type == "bridge" && p.Bridge != "":
			all = append(all, Device{p.Type, p.Bridge, true})
		case slices.Contains(masterPlugins, p.Type) && !p.LinkInContainer:
			all = append(all, Device{Plugin: p.Type, Name: p.Master})
		}
	}
	return all
}

// masterPlugins make interfaces on a link of the host.
var masterPlugins = []string{"macvlan", "ipvlan", "vlan"}
