// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/version"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/policy"
)

// applyOptions applies the options of the networks, and refuses chains that cannot work.
func (p *Plan) applyOptions() error {
	for i := range p.Added {
		added := &p.Added[i]
		if err := checkChain(added.network.Name, added.network.List); err != nil {
			return err
		}
		if asked := added.Element.Bandwidth; asked != nil {
			if err := cniconf.CheckLimits(added.network, asked.IngressRate != 0, asked.EgressRate != 0); err != nil {
				return err
			}
		}
		if added.Attachment.StrictARP = added.rules.ARP == policy.ARPStrict; added.Attachment.StrictARP {
			if err := added.refuseOwnARP(); err != nil {
				return err
			}
		}
		added.Attachment.IPv6Off = added.rules.IPv6 == policy.IPv6Off
		if added.Attachment.IPv6Off { // nor has it router advertisements
			for _, address := range added.choice.Addresses {
				if address.Addr().Is6() {
					return added.refuseChoice(address.Addr().String(), fmt.Sprintf("\"ipv6\" of the network is \"off\" in %s: choose an IPv4 address", added.network.Path))
				}
			}
			continue
		}
		added.Attachment.AwaitRA = added.rules.AwaitRA
		if added.rules.AcceptRA || !slices.ContainsFunc(added.network.Chain(), cniconf.Plugin.SetsAcceptRA) {
			added.Attachment.AcceptRA = &added.rules.AcceptRA
		}
	}
	return nil
}

// refuseOwnARP refuses a network whose plugin tuning sets what its "arp" sets: CHECK of the plugin would then undo it.
func (p Attachment) refuseOwnARP() error {
	for _, plugin := range p.network.Chain() {
		for key := range plugin.Sysctl {
			ofAll := strings.Contains(key, ".all.") || strings.Contains(key, ".default.")
			if (strings.HasSuffix(key, "arp_ignore") || strings.HasSuffix(key, "arp_announce")) && !ofAll {
				return &RequestError{"network", p.network.Name, fmt.Sprintf("\"arp\" is %q in %s, and tuning sets %s: remove one of them", policy.ARPStrict, p.network.Path, key)}
			}
		}
	}
	return nil
}

// checkChain refuses a network whose CHECK always fails: the plugin sbr moves routes to
// other tables, and the interface's plugin looks for them in the main table.
func checkChain(network string, list *libcni.NetworkConfigList) error {
	hasCheck, err := version.GreaterThanOrEqualTo(list.CNIVersion, "0.4.0")
	if err != nil || !hasCheck || list.DisableCheck {
		return err
	}
	first := list.Plugins[0].Network.Type
	chained := slices.ContainsFunc(list.Plugins, func(p *libcni.PluginConfig) bool { return p.Network.Type == "sbr" })
	if !chained || !slices.Contains(plainPlugins, first) {
		return nil
	}
	return &RequestError{"network", network, fmt.Sprintf("CHECK of plugin %s fails for the routes that plugin sbr moves, and the runtime may then delete the namespace: remove sbr and set \"allocnet\": {\"routing\": \"source\"}, or set \"disableCheck\": true", first)}
}
