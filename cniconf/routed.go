// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cniconf

import (
	"cmp"
	"fmt"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/internal/errdefs"
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
	for _, p := range n.Chain() {
		if p.IPAMType != "allocnet-ipam" {
			continue
		}
		pool, err := ipam.Parse(p.IPAM)
		if err != nil || pool.Mode == ipam.ModeFlat {
			continue
		}
		routed := RoutedPlugin{Type: p.Type, MTU: cmp.Or(p.FixedMTU(), plainMTU), Pool: pool, forwards: p.isGateway()}
		if p.Type == "bridge" {
			routed.Bridge = p.Bridge
		}
		all = append(all, routed)
	}
	return all
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
