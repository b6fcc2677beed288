// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package differential

import "slices"

// gatewayFamily are bridges with addresses.
var gatewayFamily = family{
	name:  "gateway",
	basic: func() *draft { return hostLocal(map[string]any{"type": "bridge", "bridge": "br0", "isGateway": true}) },
	dimensions: slices.Concat(addressDimensions, [][]variant{
		{set("no gateway", map[string]any{"isGateway": false}), set("default gateway", map[string]any{"isDefaultGateway": true}), set("force address", map[string]any{"forceAddress": true})},
		masquerades,
		{set("dad", map[string]any{"enabledad": true})},
		portmapVariants, firewallVariants, tuningVariants, bandwidthVariants, ruleVariants,
		gatewayHosts, scripts, ruleDamages, bandwidthDamages,
	}),
	shared:   slices.Concat(bridgeDimensions, [][]variant{versions}),
	single:   refusedVariants,
	combined: 120,
}

// gatewayHosts are the addresses that a host can have before.
var gatewayHosts = []variant{
	prepared("gateway exists", "ip link add br0 type bridge && ip addr add 10.50.0.1/24 dev br0 && ip link set br0 up"),
	prepared("gateway differs", "ip link add br0 type bridge && ip addr add 10.50.0.9/24 dev br0"),
	prepared("v6 gateway differs", "ip link add br0 type bridge && ip addr add fd00:50::9/64 dev br0"),
	prepared("other address", "ip link add br0 type bridge && ip addr add fd00:99::1/64 dev br0"),
	prepared("address of another link", "ip link add other type bridge && ip addr add 10.50.0.1/24 dev other && ip link set other up"),
}

var masquerades = []variant{
	set("masquerade", map[string]any{"ipMasq": true}),
	set("masquerade iptables", map[string]any{"ipMasq": true, "ipMasqBackend": "iptables"}),
	set("masquerade nftables", map[string]any{"ipMasq": true, "ipMasqBackend": "nftables"}),
	set("masquerade unknown", map[string]any{"ipMasq": true, "ipMasqBackend": "x"}),
}

// ptpFamily are links between the host and a namespace.
var ptpFamily = family{
	name:  "ptp",
	basic: func() *draft { return hostLocal(map[string]any{"type": "ptp"}) },
	dimensions: [][]variant{
		{set("mtu 1400", map[string]any{"mtu": 1400}), set("mtu 1", map[string]any{"mtu": 1})},
		masquerades,
		{prepared("interface exists", "ip -n sandbox link add eth0 type bridge")},
		scripts, versions,
	},
	shared:   slices.Concat(addressDimensions, [][]variant{portmapVariants, firewallVariants, tuningVariants, bandwidthVariants, ruleVariants, ruleDamages}),
	combined: 60,
}

// macvlanFamily are links on a link of the host.
var macvlanFamily = family{
	name:  "macvlan",
	basic: func() *draft { return onUplink(map[string]any{"type": "macvlan", "master": "uplink"}) },
	dimensions: [][]variant{
		{
			set("bridge", map[string]any{"mode": "bridge"}), set("private", map[string]any{"mode": "private"}), set("vepa", map[string]any{"mode": "vepa"}),
			set("passthru", map[string]any{"mode": "passthru"}), set("unknown mode", map[string]any{"mode": "x"}),
		},
		append(slices.Clip(sublinkMTUs), set("mtu 9000", map[string]any{"mtu": 9000}), set("mtu -1", map[string]any{"mtu": -1})),
		{
			set("no master", map[string]any{"master": ""}), set("unknown master", map[string]any{"master": "missing0"}),
			set("master inside", map[string]any{"linkInContainer": true}),
			{"master of route", func(d *draft) {
				delete(d.plugin, "master")
				d.prepare = append(d.prepare, "ip addr add 192.0.2.1/24 dev uplink && ip route add default via 192.0.2.2")
			}},
		},
		{set("broadcast queue", map[string]any{"bcqueuelen": 2000})},
		slices.DeleteFunc(slices.Clone(macs), func(v variant) bool { return v.name == "MAC args" || v.name == "MAC thrice" }),
		{prepared("interface exists", "ip -n sandbox link add eth0 type bridge"), prepared("master down", "ip link set uplink down")},
		{damaged("master lost", removeMaster), damaged("master down later", "ip link set uplink down || true")},
		scripts,
	},
	shared:   slices.Concat(addressDimensions, [][]variant{portmapVariants, firewallVariants, tuningVariants, bandwidthVariants, versions}),
	combined: 60,
}
