// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package policy

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/containernetworking/cni/libcni"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/isolation"
)

// CheckIsolation returns why the packets of a network cannot be dropped as its rules have it; nil if they can, or if no rule
// wants it. whyPlugins returns why the plugins of a network are executed; nil: they are not.
func CheckIsolation(n *cniconf.Network, whyPlugins func(*cniconf.Network) error) error {
	rules, err := Of(n)
	if err != nil || !rules.Isolates() && !rules.Narrow {
		return err
	}
	reason := rules.whyNotIsolated(n)
	if reason == "" {
		if rules.Inside() {
			return nil
		}
		why := whyPlugins(n)
		if why == nil {
			return nil
		}
		reason = fmt.Sprintf("its plugins are executed (%v), which set an interface up before anything guards it", why)
	}
	key := "antispoof true"
	if !rules.Guards() {
		key = "narrow true"
	}
	if rules.Level() != isolation.None {
		key = fmt.Sprintf("isolation %q", rules.Level())
	}
	if rules.Inside() {
		key = fmt.Sprintf("enforce %q", rules.Enforce)
	}
	return refuse(fmt.Errorf("policy in %s: %s: network %q cannot have it: %s", rules.File, key, n.Name, reason))
}

// whyNotIsolated is what the configuration of a network has against it; empty: nothing.
func (r Rules) whyNotIsolated(n *cniconf.Network) string {
	if r.AcceptRA && !r.AwaitRA && r.Guards() {
		return "with acceptRA its interfaces give themselves addresses that the host does not know: add awaitRA, remove acceptRA, or set antispoof to false"
	}
	if r.AcceptRA && r.Narrow {
		return "with acceptRA its interfaces give themselves addresses that the host does not know: remove one of the two"
	}
	ends, types, why := 0, withEnd, r.whyNotBehind
	if r.Inside() {
		types, why = endless, whyNotInside
	}
	for _, p := range n.Chain() {
		if slices.Contains(beside, p.Type) {
			continue
		}
		if reason := why(p); reason != "" {
			return reason
		}
		ends++
	}
	if ends != 1 {
		return fmt.Sprintf("it has %d plugins of the types %s: want one", ends, strings.Join(types, ", "))
	}
	return ""
}

// whyNotInside is why packets of the interface of a plugin cannot be dropped inside; empty: they can.
func whyNotInside(p cniconf.Plugin) string {
	switch {
	case slices.Contains(withEnd, p.Type):
		return fmt.Sprintf("interfaces of the plugin %s have an end on the host, where packets are dropped, and no task can change that: omit it", p.Type)
	case !slices.Contains(endless, p.Type):
		return fmt.Sprintf("allocnet does not know what the plugin %s makes: want one of %s", p.Type, strings.Join(endless, ", "))
	case p.IPAMType == "":
		return fmt.Sprintf("the plugin %s has no \"ipam\", so that the addresses of its interfaces are not known: add it", p.Type)
	}
	return ""
}

var (
	// withEnd are the plugins whose interfaces have an end on the host, which allocnet makes itself.
	withEnd = []string{"bridge", "ptp"}
	// beside are plugins that make no interface for packets between allocations.
	beside = []string{"bandwidth", "firewall", "loopback", "portmap", "tuning"}
	// endless are plugins whose interfaces have no end on the host.
	endless = []string{"host-device", "ipvlan", "macvlan", "vlan", "sriov", "ib-sriov"}
)

// whyNotBehind is why packets of the interface of a plugin cannot be dropped; empty: they can.
func (r Rules) whyNotBehind(p cniconf.Plugin) string {
	switch {
	case slices.Contains(endless, p.Type):
		return fmt.Sprintf("interfaces of the plugin %s have no end on the host, where packets could be dropped: want bridge or ptp, or \"enforce\": %q, which holds against tasks without CAP_NET_ADMIN and CAP_NET_RAW", p.Type, enforceInside)
	case !slices.Contains(withEnd, p.Type):
		return fmt.Sprintf("allocnet does not know what the plugin %s makes on the host: want bridge or ptp", p.Type)
	case p.IPAMType == "":
		return fmt.Sprintf("the plugin %s has no \"ipam\", so that the addresses of its interfaces are not known: add it", p.Type)
	case p.IPAMType == "dhcp":
		return "its interfaces ask a DHCP server for an address, which is not known before: want other \"ipam\", or isolation \"none\" and antispoof false"
	case p.Type == "bridge":
		return r.whyNotBehindBridge(p)
	}
	return ""
}

func (r Rules) whyNotBehindBridge(p cniconf.Plugin) string {
	switch {
	case p.VLAN != 0:
		return "the plugin bridge has \"vlan\", and packets of bridges that filter VLANs are not told apart: give each VLAN a bridge of its own"
	case p.VLANTrunk != nil:
		return "the plugin bridge has \"vlanTrunk\", and packets with VLAN tags are not told apart: remove it"
	case (r.Level() != isolation.None || r.Narrow) && !p.IsGateway && !p.IsDefaultGateway:
		return "the host is not the gateway of the bridge, so that packets to and from elsewhere do not pass it: want \"isGateway\": true"
	}
	return ""
}

// CheckBridges returns why a network cannot be attached beside others: one of them has its bridge, on which packets pass from one
// to the other, unless both are strict.
func CheckBridges(n *cniconf.Network, others []*cniconf.Network) error {
	rules, err := Of(n)
	if err != nil {
		return err
	}
	for _, bridge := range bridgesOf(n) {
		for _, other := range others {
			if other.Name == n.Name || !mayHave(other, bridge) || !slices.Contains(bridgesOf(other), bridge) {
				continue
			}
			theirs, err := Of(other)
			if err != nil || !rules.parts(theirs.Rules) {
				continue
			}
			return refuse(fmt.Errorf("policy in %s: isolation %q: network %q has the bridge %s of network %q, whose isolation is %q (%s): give one of them a bridge of its own, or both %q",
				rules.File, rules.Level(), n.Name, bridge, other.Name, theirs.Level(), theirs.File, isolation.Strict))
		}
	}
	return nil
}

// parts tells whether the levels of two networks keep packets from passing between them that a common bridge lets pass.
func (r Rules) parts(other Rules) bool {
	levels := [2]isolation.Level{r.Level(), other.Level()}
	return levels != [2]isolation.Level{isolation.None, isolation.None} && levels != [2]isolation.Level{isolation.Strict, isolation.Strict}
}

// defaultBridge is that of a plugin without the key.
const defaultBridge = "cni0"

// mayHave tells whether a network can have a bridge, without decoding it: each attach asks that of all networks.
func mayHave(n *cniconf.Network, bridge string) bool {
	return slices.ContainsFunc(n.List.Plugins, func(p *libcni.PluginConfig) bool {
		return p.Network.Type == "bridge" && (bridge == defaultBridge || bytes.Contains(p.Bytes, []byte(bridge)) || bytes.ContainsRune(p.Bytes, '\\'))
	})
}

func bridgesOf(n *cniconf.Network) (bridges []string) {
	for _, p := range n.Chain() {
		if p.Type == "bridge" && p.Bridge != "" {
			bridges = append(bridges, p.Bridge)
		}
	}
	return bridges
}
