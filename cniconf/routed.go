// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniconf

import (
	"encoding/json"
	"fmt"

	"github.com/containernetworking/cni/libcni"

	"github.com/allocnet/allocnet/internal/errdefs"
	"github.com/allocnet/allocnet/ipam"
)

// RoutedPlugin is a plugin whose pool of allocnet-ipam spans hosts without a common link.
type RoutedPlugin struct {
	Type string
	// Bridge is that of the plugin bridge. Empty: another plugin.
	Bridge string
	// MTU is that of the attachments.
	MTU  int
	Pool *ipam.Config
	// forwards is whether attachments can reach other hosts through this one.
	forwards bool
}

// plainMTU is that of links for which a configuration has none.
const plainMTU = 1500

// RoutedPlugins returns the plugins of the network whose pool has a mode other than flat. A
// configuration that cannot be parsed is none: the plugin reports it.
func (n *Network) RoutedPlugins() []RoutedPlugin {
	var all []RoutedPlugin
	for _, plugin := range n.List.Plugins {
		if p, ok := routedPlugin(plugin); ok {
			all = append(all, p)
		}
	}
	return all
}

func routedPlugin(plugin *libcni.PluginConfig) (RoutedPlugin, bool) {
	conf := struct {
		IPAM             json.RawMessage `json:"ipam"`
		Bridge           string          `json:"bridge"`
		MTU              int             `json:"mtu"`
		IsGateway        bool            `json:"isGateway"`
		IsDefaultGateway bool            `json:"isDefaultGateway"`
	}{Bridge: "cni0"}
	if plugin.Network.IPAM.Type != "allocnet-ipam" || json.Unmarshal(plugin.Bytes, &conf) != nil {
		return RoutedPlugin{}, false
	}
	pool, err := ipam.Parse(conf.IPAM)
	if err != nil || pool.Mode == ipam.ModeFlat {
		return RoutedPlugin{}, false
	}
	p := RoutedPlugin{Type: plugin.Network.Type, MTU: conf.MTU, Pool: pool}
	if p.MTU == 0 {
		p.MTU = plainMTU
	}
	switch p.Type {
	case "ptp":
		p.forwards = true
	case "bridge":
		p.Bridge, p.forwards = conf.Bridge, conf.IsGateway || conf.IsDefaultGateway
	}
	return p, true
}

// CheckRouted returns an error for a plugin whose attachments cannot reach those of other hosts.
func (n *Network) CheckRouted() error {
	for _, p := range n.RoutedPlugins() {
		if p.forwards {
			continue
		}
		want := `ptp, or bridge with "isGateway": true`
		if p.Type == "bridge" {
			want = `"isGateway": true`
		}
		return errdefs.As(errdefs.Refused, fmt.Errorf("network %q: plugin %s has the pool %s of the mode %s, and does not forward to other hosts: want %s in %s",
			n.Name, p.Type, p.Pool.Pool, p.Pool.Mode, want, n.Path))
	}
	return nil
}
