// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package differential

import "maps"

// hostLocal returns a plugin's configuration with addresses of host-local.
func hostLocal(plugin map[string]any) *draft {
	plugin["ipam"] = map[string]any{"type": "host-local", "subnet": "10.50.0.0/24"}
	return &draft{version: "1.0.0", plugin: plugin}
}

// ipam returns a variant that keeps the addresses. Only host-local has other keys than routes.
func ipam(name string, keys map[string]any) variant {
	return variant{name, func(d *draft) {
		if conf, ok := d.plugin["ipam"].(map[string]any); ok && (conf["type"] == "host-local" || keys["routes"] != nil) {
			maps.Copy(conf, keys)
		}
	}}
}

// addresses returns a variant with other addresses.
func addresses(name string, conf map[string]any, commands ...string) variant {
	return variant{name, func(d *draft) {
		d.plugin["ipam"] = maps.Clone(conf)
		d.prepare = append(d.prepare, commands...)
	}}
}

// ranges returns a variant with ranges of host-local, one set for each.
func ranges(name string, sets ...map[string]any) variant {
	var all [][]map[string]any
	for _, set := range sets {
		all = append(all, []map[string]any{set})
	}
	return addresses(name, map[string]any{"type": "host-local", "ranges": all})
}

// static returns a variant with addresses of static.
func static(name string, list ...map[string]any) variant {
	return addresses(name, map[string]any{"type": "static", "addresses": append([]map[string]any{}, list...)})
}

var (
	v4 = map[string]any{"subnet": "10.50.0.0/24"}
	v6 = map[string]any{"subnet": "fd00:50::/64"}
)

// lease is a command that makes a lease of another container, unless there can be no directory.
func lease(address string) string {
	return "mkdir -p /var/lib/cni/networks/net && printf 'other\r\neth0' >/var/lib/cni/networks/net/" + address + " || true"
}

// addressDimensions are what a network with addresses can have.
var addressDimensions = [][]variant{
	{
		ranges("v6", v6),
		ranges("dual", v4, v6),
		ranges("v6 first", v6, v4),
		ranges("two v4", v4, map[string]any{"subnet": "10.51.0.0/24"}),
		ranges("two of each", v4, v6, map[string]any{"subnet": "10.51.0.0/24"}, map[string]any{"subnet": "fd00:51::/64"}),
		ranges("small", map[string]any{"subnet": "10.50.0.0/30"}),
		ranges("range", map[string]any{"subnet": "10.50.0.0/24", "rangeStart": "10.50.0.20", "rangeEnd": "10.50.0.21", "gateway": "10.50.0.254"}),
		ranges("v6 range", map[string]any{"subnet": "fd00:50::/64", "rangeStart": "fd00:50::20", "rangeEnd": "fd00:50::21", "gateway": "fd00:50::fe"}),
		addresses("set of ranges", map[string]any{"type": "host-local", "ranges": [][]map[string]any{{v4, {"subnet": "10.51.0.0/24"}}}}, lease("10.50.0.2")),
		addresses("mixed keys", map[string]any{"type": "host-local", "subnet": "10.50.0.0/24", "ranges": [][]map[string]any{{v6}}}),
		addresses("old keys", map[string]any{"type": "host-local", "subnet": "10.50.0.0/24", "rangeStart": "10.50.0.9", "rangeEnd": "10.50.0.9", "gateway": "10.50.0.3"}),
		addresses("other directory", map[string]any{"type": "host-local", "subnet": "10.50.0.0/24", "dataDir": "/run/leases"}),
		addresses("no ranges", map[string]any{"type": "host-local"}),
		addresses("invalid subnet", map[string]any{"type": "host-local", "subnet": "10.50.0.0/33"}),
		addresses("subnet too small", map[string]any{"type": "host-local", "subnet": "10.50.0.0/32"}),
		addresses("host bits", map[string]any{"type": "host-local", "subnet": "10.50.0.7/24"}),
		addresses("range outside", map[string]any{"type": "host-local", "subnet": "10.50.0.0/24", "rangeStart": "10.51.0.1"}),
		addresses("overlap", map[string]any{"type": "host-local", "ranges": [][]map[string]any{{v4}, {v4}}}),
		addresses("mixed set", map[string]any{"type": "host-local", "ranges": [][]map[string]any{{v4, v6}}}),
		static("static", map[string]any{"address": "10.50.0.7/24"}),
		static("static gateway", map[string]any{"address": "10.50.0.7/24", "gateway": "10.50.0.254"}),
		static("static dual", map[string]any{"address": "10.50.0.7/24", "gateway": "10.50.0.1"}, map[string]any{"address": "fd00:50::7/64", "gateway": "fd00:50::1"}),
		static("static v6", map[string]any{"address": "fd00:50::7/64"}),
		static("static twice", map[string]any{"address": "10.50.0.7/24"}, map[string]any{"address": "10.50.0.7/24"}),
		static("static two", map[string]any{"address": "10.50.0.7/24"}, map[string]any{"address": "10.50.0.8/24"}),
		static("static none"),
		static("static invalid", map[string]any{"address": "10.50.0.7"}),
		{"no ipam", func(d *draft) { delete(d.plugin, "ipam") }},
		addresses("empty ipam", map[string]any{}),
	},
	{
		{"host has address", func(d *draft) {
			d.prepare = append(d.prepare, lease("10.50.0.2"), lease("10.50.0.3"), lease("fd00:50::2"))
		}},
		prepared("pool full", "mkdir -p /var/lib/cni/networks/net && for i in $(seq 1 254); do printf 'other\r\neth0' >/var/lib/cni/networks/net/10.50.0.$i; done"),
		prepared("last address", "mkdir -p /var/lib/cni/networks/net && printf 10.50.0.100 >/var/lib/cni/networks/net/last_reserved_ip.0"),
		prepared("end of range", "mkdir -p /var/lib/cni/networks/net && printf 10.50.0.254 >/var/lib/cni/networks/net/last_reserved_ip.0"),
		prepared("bad last address", "mkdir -p /var/lib/cni/networks/net && printf nonsense >/var/lib/cni/networks/net/last_reserved_ip.0"),
		prepared("own lease", "mkdir -p /var/lib/cni/networks/net && printf 'container\r\neth0' >/var/lib/cni/networks/net/10.50.0.44"),
		prepared("old lease", "mkdir -p /var/lib/cni/networks/net && printf container >/var/lib/cni/networks/net/10.50.0.45"),
		prepared("lease of another interface", "mkdir -p /var/lib/cni/networks/net && printf 'container\r\neth9' >/var/lib/cni/networks/net/10.50.0.46"),
		prepared("lease with newline", "mkdir -p /var/lib/cni/networks/net && printf 'container\r\neth0\n' >/var/lib/cni/networks/net/10.50.0.47"),
		prepared("empty lease", "mkdir -p /var/lib/cni/networks/net && : >/var/lib/cni/networks/net/10.50.0.2"),
		prepared("foreign files", "mkdir -p /var/lib/cni/networks/net/directory && echo x >/var/lib/cni/networks/net/other"),
		prepared("no directory", "rm -rf /var/lib/cni/networks && mkdir -p /var/lib/cni && : >/var/lib/cni/networks"),
	},
	{
		ipam("default route", map[string]any{"routes": []map[string]any{{"dst": "0.0.0.0/0"}}}),
		ipam("default routes", map[string]any{"routes": []map[string]any{{"dst": "0.0.0.0/0"}, {"dst": "::/0"}}}),
		ipam("route", map[string]any{"routes": []map[string]any{{"dst": "192.168.7.0/24", "gw": "10.50.0.1"}, {"dst": "fd00:99::/64"}}}),
		ipam("route with attributes", map[string]any{"routes": []map[string]any{{"dst": "192.168.7.0/24", "gw": "10.50.0.1", "priority": 7, "table": 99, "mtu": 1300, "advmss": 1200}}}),
		ipam("route in scope", map[string]any{"routes": []map[string]any{{"dst": "192.168.7.0/24", "scope": 253}}}),
		ipam("route not reachable", map[string]any{"routes": []map[string]any{{"dst": "192.168.7.0/24", "gw": "192.0.2.1"}}}),
		ipam("route twice", map[string]any{"routes": []map[string]any{{"dst": "192.168.7.0/24"}, {"dst": "192.168.7.0/24"}}}),
		ipam("route invalid", map[string]any{"routes": []map[string]any{{"dst": "192.168.7.0"}}}),
	},
	{
		{"dns of static", func(d *draft) {
			d.plugin["ipam"] = map[string]any{"type": "static", "addresses": []map[string]any{{"address": "10.50.0.7/24"}}, "dns": map[string]any{"nameservers": []string{"10.50.0.53"}, "search": []string{"example.org"}}}
		}},
		set("dns of plugin", map[string]any{"dns": map[string]any{"nameservers": []string{"10.50.0.54"}, "domain": "example.net", "options": []string{"ndots:2"}}}),
		{"resolvConf", func(d *draft) {
			d.prepare = append(d.prepare, "printf '# comment\nnameserver 10.50.0.55\nsearch a.example b.example\noptions ndots:5 timeout:1\ndomain c.example\n' >/run/resolv.conf")
			ipam("", map[string]any{"resolvConf": "/run/resolv.conf"}).apply(d)
		}},
		ipam("resolvConf missing", map[string]any{"resolvConf": "/run/missing"}),
	},
	{
		requested("ips capability", "10.50.0.77/24"),
		requested("ips capability without mask", "10.50.0.77"),
		requested("ips dual", "10.50.0.77/24", "fd00:50::77/64"),
		requested("ips elsewhere", "192.0.2.7/24"),
		requested("ips invalid", "10.50.0"),
		requested("ips gateway", "10.50.0.1/24"),
		requested("ips broadcast", "10.50.0.255/24"),
		{"ips taken", func(d *draft) {
			requested("", "10.50.0.2/24").apply(d)
			d.prepare = append(d.prepare, lease("10.50.0.2"))
		}},
		{"IP in CNI_ARGS", func(d *draft) { d.args = append(d.args, [2]string{"IP", "10.50.0.78"}) }},
		{"IP with mask in CNI_ARGS", func(d *draft) { d.args = append(d.args, [2]string{"IP", "10.50.0.78/24"}) }},
		{"IP and gateway in CNI_ARGS", func(d *draft) {
			d.args = append(d.args, [2]string{"IP", "10.50.0.78/24"}, [2]string{"GATEWAY", "10.50.0.3"})
		}},
		{"ips in args", func(d *draft) {
			d.plugin["args"] = map[string]any{"cni": map[string]any{"ips": []string{"10.50.0.79/24"}}}
		}},
		{"dns capability", func(d *draft) { capability(d, d.plugin, "dns", map[string]any{"servers": []string{"10.50.0.56"}}) }},
		{"ipRanges capability", func(d *draft) {
			capability(d, d.plugin, "ipRanges", [][]map[string]any{{{"subnet": "10.52.0.0/24"}}})
		}},
	},
}

func requested(name string, ips ...string) variant {
	return variant{name, func(d *draft) { capability(d, d.plugin, "ips", ips) }}
}
