// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package differential

import "slices"

// bridgeFamily are bridges without addresses.
var bridgeFamily = family{
	name: "bridge",
	basic: func() *draft {
		return &draft{version: "1.0.0", plugin: map[string]any{"type": "bridge", "bridge": "br0"}}
	},
	dimensions: slices.Concat(bridgeDimensions, [][]variant{
		bridgeHosts, scripts, versions,
		{set("no name", map[string]any{"bridge": nil}), set("name too long", map[string]any{"bridge": "bridge-of-sixteen"}), set("empty name", map[string]any{"bridge": ""})},
		{set("interface disabled", map[string]any{"disableContainerInterface": true})},
		{set("gateway", map[string]any{"isGateway": true, "ipMasq": true})},
	}),
	combined: 60,
}

// bridgeDimensions are what a bridge can have with and without addresses.
var bridgeDimensions = [][]variant{
	{set("mtu 1400", map[string]any{"mtu": 1400}), set("mtu 9000", map[string]any{"mtu": 9000}), set("mtu 1", map[string]any{"mtu": 1})},
	{set("hairpin", map[string]any{"hairpinMode": true}), set("promiscuous", map[string]any{"promiscMode": true}), set("both modes", map[string]any{"promiscMode": true, "hairpinMode": true})},
	{
		set("vlan 100", map[string]any{"vlan": 100}), set("vlan 4094", map[string]any{"vlan": 4094}), set("vlan 1", map[string]any{"vlan": 1}),
		set("vlan 4095", map[string]any{"vlan": 4095}), set("vlan -1", map[string]any{"vlan": -1}),
	},
	{
		trunk("trunk id", map[string]any{"id": 20}), trunk("trunk range", map[string]any{"minID": 20, "maxID": 24}),
		trunk("trunk both", map[string]any{"id": 30, "minID": 20, "maxID": 21}, map[string]any{"id": 10}, map[string]any{"id": 30}),
		trunk("trunk without maxID", map[string]any{"minID": 20}), trunk("trunk without minID", map[string]any{"maxID": 20}),
		trunk("trunk reversed", map[string]any{"minID": 20, "maxID": 10}), trunk("trunk 0", map[string]any{"id": 0}),
		trunk("trunk 4095", map[string]any{"minID": 4090, "maxID": 4095}), trunk("trunk empty"), trunk("trunk nothing", map[string]any{}),
		trunk("trunk has vlan", map[string]any{"id": 100}), trunk("trunk has 1", map[string]any{"id": 1}),
	},
	{set("default vlan", map[string]any{"preserveDefaultVlan": true})},
	{set("isolated", map[string]any{"portIsolation": true})},
	macs,
	{
		damaged("bridge lost", "ip link del br0 || true"),
		damaged("bridge down", "ip link set br0 down || true"),
		damaged("bridge promiscuous", "ip link set br0 promisc on || true"),
		damaged("bridge MAC changed", "ip link set br0 address 02:00:00:00:00:98 || true"),
		damaged("no port", "for port in $(ls /sys/class/net/br0/brif 2>/dev/null); do ip link set $port nomaster; done"),
		damaged("port is elsewhere", "ip link add br9 type bridge || true; for link in $(ip -o link show type veth | sed 's/^[0-9]*: *//; s/[@:].*//'); do ip link set $link master br9; done"),
	},
}

// bridgeHosts are what a host can have before a bridge is made.
var bridgeHosts = []variant{
	prepared("bridge exists", "ip link add br0 type bridge && ip link set br0 up"),
	prepared("bridge has MAC", "ip link add br0 address 02:00:00:00:00:42 mtu 1450 type bridge"),
	prepared("bridge has port", "ip link add br0 type bridge && ip link add port0 address 02:00:00:00:00:01 type veth peer name wire0 && ip link set port0 master br0"),
	prepared("no bridge", "ip link add br0 type veth peer name wire0"),
	prepared("interface exists", "ip -n sandbox link add eth0 type bridge"),
	prepared("interface is veth", "ip -n sandbox link add eth0 type veth peer name other"),
}

func trunk(name string, ranges ...map[string]any) variant {
	return set(name, map[string]any{"vlanTrunk": append([]map[string]any{}, ranges...)})
}

// macs are the ways to ask for a MAC.
var macs = []variant{
	{"MAC capability", func(d *draft) { capability(d, d.plugin, "mac", "02:00:00:00:00:11") }},
	{"MAC args", func(d *draft) { d.plugin["args"] = map[string]any{"cni": map[string]any{"mac": "02:00:00:00:00:12"}} }},
	{"MAC CNI_ARGS", func(d *draft) { d.args = append(d.args, [2]string{"MAC", "02:00:00:00:00:13"}) }},
	{"MAC thrice", func(d *draft) {
		capability(d, d.plugin, "mac", "02:00:00:00:00:11")
		d.plugin["args"] = map[string]any{"cni": map[string]any{"mac": "02:00:00:00:00:12"}}
		d.args = append(d.args, [2]string{"MAC", "02:00:00:00:00:13"})
	}},
	{"MAC invalid", func(d *draft) { capability(d, d.plugin, "mac", "02:00:00:00") }},
	{"MAC multicast", func(d *draft) { capability(d, d.plugin, "mac", "03:00:00:00:00:11") }},
	{"unknown CNI_ARGS", func(d *draft) { d.args = append(d.args, [2]string{"OTHER", "1"}) }},
	{"ignored CNI_ARGS", func(d *draft) { d.args = append(d.args, [2]string{"OTHER", "1"}, [2]string{"IgnoreUnknown", "1"}) }},
}
