// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/allocnet/allocnet/cniconf"
)

// network is what matters here of a network's configuration.
type network struct {
	*cniconf.Network
	bridges []string
	ranges  []cniconf.AddressRange
	// routed is whether the host forwards for it.
	routed bool
}

// pluginConf is what of a plugin's configuration matters here.
type pluginConf struct {
	Type      string `json:"type"`
	Bridge    string `json:"bridge"`
	IsGateway bool   `json:"isGateway"`
	IsDefault bool   `json:"isDefaultGateway"`
	IPMasq    bool   `json:"ipMasq"`
}

func describe(n *cniconf.Network) network {
	d := network{Network: n}
	for _, plugin := range n.List.Plugins {
		var conf pluginConf
		if json.Unmarshal(plugin.Bytes, &conf) != nil { // the plugin will say what is wrong
			continue
		}
		d.routed = d.routed || conf.IsGateway || conf.IsDefault || conf.IPMasq || conf.Type == "ptp" || conf.Type == "portmap"
		if conf.Type == "bridge" {
			d.bridges = append(d.bridges, bridgeName(conf))
		}
	}
	for _, p := range n.Pools() {
		d.ranges = append(d.ranges, p.Ranges()...)
	}
	return d
}

// bridgeName is the plugin's default where none is configured.
func bridgeName(conf pluginConf) string {
	if conf.Bridge == "" {
		return "cni0"
	}
	return conf.Bridge
}

// overlaps finds networks that get in each other's way.
func overlaps(r *Report, networks []network) {
	for i, a := range networks {
		for _, b := range networks[:i] {
			for _, bridge := range a.bridges {
				if slices.Contains(b.bridges, bridge) {
					r.wrong(a.Path, fmt.Sprintf("network %q has the bridge %s of network %q (%s)", a.Name, bridge, b.Name, b.Path),
						"give one of them a bridge of its own")
				}
			}
			for _, mine := range a.ranges {
				for _, other := range b.ranges {
					if mine.Subnet.Overlaps(other.Subnet) {
						r.wrong(a.Path, fmt.Sprintf("subnet %s of network %q overlaps %s of network %q (%s): both give out the same addresses", mine.Subnet, a.Name, other.Subnet, b.Name, b.Path),
							"give one of them another subnet")
					}
				}
			}
		}
	}
}
