// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package differential

import (
	"slices"
)

// vlanFamily and ipvlanFamily are interfaces on a link of the host. A kernel without these kinds makes none: then it is compared what ADD
// leaves that fails, and TestCreation compares what the kernel is asked for.
var (
	vlanFamily = family{
		name:  "vlan",
		basic: func() *draft { return onUplink(map[string]any{"type": "vlan", "master": "uplink", "vlanId": 100}) },
		dimensions: [][]variant{
			{set("id 0", map[string]any{"vlanId": 0}), set("id 4094", map[string]any{"vlanId": 4094})},
			sublinkMTUs,
			{prepared("interface exists", "ip -n sandbox link add eth0 type bridge"), prepared("master down", "ip link set uplink down")},
			{damaged("master lost", removeMaster), damaged("master down later", "ip link set uplink down || true")},
			sublinkScripts,
		},
		shared: slices.Concat(addressDimensions, [][]variant{tuningVariants, versions}),
		// A DEL of the plugin fails if a value is invalid, and leaves the notes of host-local that CHECK makes.
		single: append(slices.Clip(sublinkSingles), set("id 4095", map[string]any{"vlanId": 4095}), set("id -1", map[string]any{"vlanId": -1}),
			set("no master", map[string]any{"master": ""}), set("no addresses", map[string]any{"ipam": map[string]any{}})),
		combined: 8,
	}
	ipvlanFamily = family{
		name:  "ipvlan",
		basic: func() *draft { return onUplink(map[string]any{"type": "ipvlan", "master": "uplink"}) },
		dimensions: [][]variant{
			{set("l2", map[string]any{"mode": "l2"}), set("l3", map[string]any{"mode": "l3"}), set("l3s", map[string]any{"mode": "l3s"})},
			sublinkMTUs,
			{prepared("interface exists", "ip -n sandbox link add eth0 type bridge"), prepared("master down", "ip link set uplink down")},
			{damaged("master lost", removeMaster), damaged("master down later", "ip link set uplink down || true")},
			sublinkScripts,
		},
		shared: slices.Concat(addressDimensions, [][]variant{tuningVariants, versions}),
		single: append(slices.Clip(sublinkSingles), set("unknown mode", map[string]any{"mode": "x"}), variant{"master of route", func(d *draft) {
			delete(d.plugin, "master")
			d.prepare = append(d.prepare, "ip addr add 192.0.2.1/24 dev uplink && ip route add default via 192.0.2.2")
			d.steps = []string{add, del, del} // CHECK of the plugin wants a name
		}}),
		combined: 8,
	}

	sublinkMTUs    = []variant{set("mtu 1400", map[string]any{"mtu": 1400}), set("mtu 1500", map[string]any{"mtu": 1500})}
	sublinkSingles = []variant{
		set("mtu 9000", map[string]any{"mtu": 9000}), set("mtu -1", map[string]any{"mtu": -1}),
		set("unknown master", map[string]any{"master": "missing0"}), set("master inside", map[string]any{"linkInContainer": true}),
		{"own master inside", func(d *draft) {
			d.plugin["master"], d.plugin["linkInContainer"] = "inner0", true
			d.prepare = append(d.prepare, "ip -n sandbox link add inner0 type bridge")
		}},
	}
	// sublinkScripts are all but that of another MAC, which is the master's to change (docs/differences.md).
	sublinkScripts = slices.DeleteFunc(slices.Clone(scripts), func(v variant) bool { return v.name == "MAC changed" })
)

func onUplink(plugin map[string]any) *draft {
	d := hostLocal(plugin)
	d.prepare = []string{"ip link add uplink type veth peer name wire && ip link set uplink up && ip link set wire up"}
	return d
}
