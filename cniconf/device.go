// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniconf

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/containernetworking/cni/libcni"
)

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
	for _, plugin := range n.List.Plugins {
		if d, ok := deviceOf(plugin); ok {
			all = append(all, d)
		}
	}
	return all
}

func deviceOf(plugin *libcni.PluginConfig) (d Device, ok bool) {
	var conf struct {
		Bridge          string `json:"bridge"`
		Master          string `json:"master"`
		LinkInContainer bool   `json:"linkInContainer"`
	}
	if json.Unmarshal(plugin.Bytes, &conf) != nil {
		return Device{}, false // the plugin reports a mistake
	}
	if plugin.Network.Type == "bridge" {
		return Device{plugin.Network.Type, cmp.Or(conf.Bridge, "cni0"), true}, true
	}
	return Device{Plugin: plugin.Network.Type, Name: conf.Master}, slices.Contains(masterPlugins, plugin.Network.Type) && !conf.LinkInContainer
}

// masterPlugins make interfaces on a link of the host.
var masterPlugins = []string{"macvlan", "ipvlan", "vlan"}
