// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package plan

import (
	"net/netip"
	"slices"

	"github.com/allocnet/allocnet/cniconf"
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
		a, chain := added.Attachment, added.network.Chain()
		if slices.ContainsFunc(chain, setsDefaultRoute) {
			if previous != "" {
				a.DependsOn = append(a.DependsOn, previous)
			}
			previous = a.Interface
		}
		a.DependsOn = append(a.DependsOn, onrecord.MasterInterfaces(chain, candidates)...)
		a.DependsOn = append(a.DependsOn, bridgeInterfaces(chain, p.Added[:i])...)
		a.DependsOn = append(a.DependsOn, settingInterfaces(onrecord.Parameters(chain, a.Interface), p.Added[:i])...)
		candidates = append(candidates, *a)
	}
}

// plainPlugins set no routes of their own: only their IPAM's.
var plainPlugins = []string{
	"bridge", "ptp", "macvlan", "ipvlan", "vlan", "host-device", "tap", "dummy", "loopback",
	"portmap", "firewall", "tuning", "bandwidth",
}

// setsDefaultRoute tells whether a plugin sets a default route, or may: unknown
// plugins may.
func setsDefaultRoute(p cniconf.Plugin) bool {
	if !slices.Contains(plainPlugins, p.Type) || p.IsDefaultGateway {
		return true
	}
	switch p.IPAMType {
	case "", "host-local", "static":
	default: // the router option of DHCP, or an unknown IPAM plugin
		return true
	}
	return slices.ContainsFunc(p.Routes(), func(r cniconf.Route) bool {
		to, err := netip.ParsePrefix(r.Dst)
		return err == nil && to.Bits() == 0
	})
}

// settingInterfaces returns the interfaces of the earlier attachments that set a parameter which these set, too, or the other way round.
func settingInterfaces(parameters []onrecord.Parameter, candidates []Attachment) (interfaces []string) {
	if len(parameters) == 0 {
		return nil
	}
	for _, e := range candidates {
		shared := slices.ContainsFunc(onrecord.Parameters(e.network.Chain(), e.Attachment.Interface), func(other onrecord.Parameter) bool {
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
func bridgeInterfaces(chain []cniconf.Plugin, candidates []Attachment) []string {
	var interfaces []string
	for _, p := range chain {
		if p.Master == "" || p.LinkInContainer {
			continue
		}
		for _, e := range candidates {
			if createsBridge(e.network.Chain(), p.Master) {
				interfaces = append(interfaces, e.Attachment.Interface)
			}
		}
	}
	return interfaces
}

func createsBridge(chain []cniconf.Plugin, name string) bool {
	return slices.ContainsFunc(chain, func(p cniconf.Plugin) bool { return p.Type == "bridge" && p.Bridge == name })
}
