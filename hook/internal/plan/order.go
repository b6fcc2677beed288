// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package plan

import (
	"net/netip"
	"slices"

	"github.com/containernetworking/cni/libcni"

	"github.com/allocnet/allocnet/hook/internal/onrecord"
	"github.com/allocnet/allocnet/internal/sysctl"
)

// order fills DependsOn. Attachments that set a default route follow each other, the
// primary first, so that the result does not depend on which plugin is quicker. An
// attachment whose master is an interface in the namespace follows that interface's, and
// one whose master is a bridge follows those that may create the bridge. Of attachments that
// set a parameter of the namespace the last one counts.
func (p *Plan) order() {
	previous := ""
	candidates := slices.Clone(p.Existing)
	for i, added := range p.Added {
		a, list := added.Attachment, added.network.List
		if setsDefaultRoute(list) {
			if previous != "" {
				a.DependsOn = append(a.DependsOn, previous)
			}
			previous = a.Interface
		}
		a.DependsOn = append(a.DependsOn, onrecord.MasterInterfaces(list, candidates)...)
		a.DependsOn = append(a.DependsOn, bridgeInterfaces(list, p.Added[:i])...)
		a.DependsOn = append(a.DependsOn, settingInterfaces(onrecord.Parameters(list, a.Interface), p.Added[:i])...)
		candidates = append(candidates, *a)
	}
}

// plainPlugins set no routes of their own: only their IPAM's.
var plainPlugins = []string{
	"bridge", "ptp", "macvlan", "ipvlan", "vlan", "host-device", "tap", "dummy", "loopback",
	"portmap", "firewall", "tuning", "bandwidth",
}

// setsDefaultRoute tells whether a network sets a default route, or may: unknown
// plugins may.
func setsDefaultRoute(list *libcni.NetworkConfigList) bool {
	return slices.ContainsFunc(list.Plugins, func(p *libcni.PluginConfig) bool {
		conf, err := onrecord.DecodePlugin(p)
		if err != nil || !slices.Contains(plainPlugins, conf.Type) || conf.IsDefaultGateway {
			return true
		}
		switch conf.IPAM.Type {
		case "", "host-local", "static":
		default: // the router option of DHCP, or an unknown IPAM plugin
			return true
		}
		for _, route := range conf.IPAM.Routes {
			if to, err := netip.ParsePrefix(route.Dst); err == nil && to.Bits() == 0 {
				return true
			}
		}
		return false
	})
}

// settingInterfaces returns the interfaces of the earlier attachments that set a parameter which these set, too, or the other way round.
func settingInterfaces(parameters []onrecord.Parameter, candidates []Attachment) (interfaces []string) {
	if len(parameters) == 0 {
		return nil
	}
	for _, e := range candidates {
		shared := slices.ContainsFunc(onrecord.Parameters(e.network.List, e.Attachment.Interface), func(other onrecord.Parameter) bool {
			return slices.ContainsFunc(parameters, func(p onrecord.Parameter) bool {
				return sysctl.Sets(p.Path, other.Path) || sysctl.Sets(other.Path, p.Path)
			})
		})
		if shared {
			interfaces = append(interfaces, e.Attachment.Interface)
		}
	}
	return interfaces
}

// bridgeInterfaces returns the interfaces of the earlier attachments that create a bridge
// which is a master in the network.
func bridgeInterfaces(list *libcni.NetworkConfigList, candidates []Attachment) []string {
	var interfaces []string
	for _, p := range list.Plugins {
		conf, err := onrecord.DecodePlugin(p)
		if err != nil || conf.Master == "" || conf.LinkInContainer {
			continue
		}
		for _, e := range candidates {
			if createsBridge(e.network.List, conf.Master) {
				interfaces = append(interfaces, e.Attachment.Interface)
			}
		}
	}
	return interfaces
}

func createsBridge(list *libcni.NetworkConfigList, name string) bool {
	return slices.ContainsFunc(list.Plugins, func(p *libcni.PluginConfig) bool {
		conf, err := onrecord.DecodePlugin(p)
		return err == nil && conf.Type == "bridge" && conf.Link() == name
	})
}
