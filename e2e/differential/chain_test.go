// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package differential

// chained returns a variant with a plugin after the first.
func chained(name string, conf map[string]any) variant {
	return variant{name, func(d *draft) { d.chain = append(d.chain, clone(conf)) }}
}

func clone(conf map[string]any) map[string]any {
	copied := map[string]any{}
	for key, value := range conf {
		copied[key] = value
	}
	return copied
}

// mapping is an element of the capability "portMappings".
type mapping = map[string]any

var web = mapping{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}

// mapped returns a variant with portmap.
func mapped(name string, conf map[string]any, mappings ...mapping) variant {
	return variant{name, func(d *draft) {
		plugin := clone(conf)
		plugin["type"] = "portmap"
		capability(d, plugin, "portMappings", append([]mapping{}, mappings...))
		d.chain = append(d.chain, plugin)
	}}
}

// portmapVariants are those of portmap.
var portmapVariants = []variant{
	mapped("portmap", nil, web),
	mapped("portmap snat", map[string]any{"snat": true}, web),
	mapped("portmap no snat", map[string]any{"snat": false}, web),
	mapped("portmap masqAll", map[string]any{"masqAll": true}, web),
	mapped("portmap udp", nil, mapping{"hostPort": 53, "containerPort": 53, "protocol": "udp"}),
	mapped("portmap sctp", nil, mapping{"hostPort": 53, "containerPort": 53, "protocol": "sctp"}),
	mapped("portmap several", nil, web, mapping{"hostPort": 8081, "containerPort": 81, "protocol": "tcp"}, mapping{"hostPort": 53, "containerPort": 53, "protocol": "udp"}),
	mapped("portmap many", nil, many(20)...),
	mapped("portmap hostIP", nil, mapping{"hostPort": 8080, "containerPort": 80, "protocol": "tcp", "hostIP": "127.0.0.1"}),
	mapped("portmap hostIP v6", nil, mapping{"hostPort": 8080, "containerPort": 80, "protocol": "tcp", "hostIP": "fd00:50::1"}),
	mapped("portmap hostIP any", nil, mapping{"hostPort": 8080, "containerPort": 80, "protocol": "tcp", "hostIP": "0.0.0.0"}),
	mapped("portmap hostIP any v6", nil, mapping{"hostPort": 8080, "containerPort": 80, "protocol": "tcp", "hostIP": "::"}),
	mapped("portmap hostIP invalid", nil, mapping{"hostPort": 8080, "containerPort": 80, "protocol": "tcp", "hostIP": "x"}),
	mapped("portmap upper case", nil, mapping{"hostPort": 8080, "containerPort": 80, "protocol": "TCP"}),
	mapped("portmap port 0", nil, mapping{"hostPort": 0, "containerPort": 80, "protocol": "tcp"}),
	mapped("portmap none", nil),
	mapped("portmap twice", nil, web, web),
	mapped("portmap conditions", map[string]any{"conditionsV4": []string{"-s", "192.0.2.0/24"}, "conditionsV6": []string{"!", "-s", "fd00:60::/64"}}, web),
	mapped("portmap mark bit", map[string]any{"markMasqBit": 5}, web),
	mapped("portmap mark bit 32", map[string]any{"markMasqBit": 32}, web),
	mapped("portmap nftables", map[string]any{"backend": "nftables"}, web),
	mapped("portmap nftables several", map[string]any{"backend": "nftables", "snat": true}, web, mapping{"hostPort": 53, "containerPort": 53, "protocol": "udp"}),
	mapped("portmap nftables hostIP", map[string]any{"backend": "nftables"}, mapping{"hostPort": 8080, "containerPort": 80, "protocol": "tcp", "hostIP": "127.0.0.1"}),
	mapped("portmap nftables conditions", map[string]any{"backend": "nftables", "conditionsV4": []string{"ip", "saddr", "192.0.2.0/24"}}, web),
	mapped("portmap iptables", map[string]any{"backend": "iptables"}, web),
	mapped("portmap unknown backend", map[string]any{"backend": "x"}, web),
	chained("portmap without ports", map[string]any{"type": "portmap", "capabilities": map[string]any{"portMappings": true}}),
}

// refusedVariants are those whose rules iptables refuses. They are not combined with others: in
// process the plugins behind portmap run before its rules are made.
var refusedVariants = []variant{
	mapped("portmap no protocol", nil, mapping{"hostPort": 8080, "containerPort": 80}),
	mapped("portmap unknown protocol", nil, mapping{"hostPort": 8080, "containerPort": 80, "protocol": "x"}),
	mapped("portmap port 70000", nil, mapping{"hostPort": 70000, "containerPort": 80, "protocol": "tcp"}),
	mapped("portmap external chain", map[string]any{"externalSetMarkChain": "OTHER-MARK"}, web),
	mapped("portmap external chain and bit", map[string]any{"externalSetMarkChain": "OTHER-MARK", "markMasqBit": 5}, web),
}

func many(n int) []mapping {
	var all []mapping
	for i := range n {
		all = append(all, mapping{"hostPort": 9000 + i, "containerPort": 80 + i, "protocol": "tcp"})
	}
	return all
}

// firewallVariants are those of firewall.
var firewallVariants = []variant{
	chained("firewall", map[string]any{"type": "firewall"}),
	chained("firewall iptables", map[string]any{"type": "firewall", "backend": "iptables"}),
	chained("firewall admin chain", map[string]any{"type": "firewall", "iptablesAdminChainName": "MY-ADMIN"}),
	chained("firewall open", map[string]any{"type": "firewall", "ingressPolicy": "open"}),
	chained("firewall same-bridge", map[string]any{"type": "firewall", "ingressPolicy": "same-bridge"}),
	chained("firewall isolated", map[string]any{"type": "firewall", "ingressPolicy": "isolated"}),
	chained("firewall unknown policy", map[string]any{"type": "firewall", "ingressPolicy": "x"}),
	chained("firewall unknown backend", map[string]any{"type": "firewall", "backend": "x"}),
}

// tuningVariants are those of tuning.
var tuningVariants = []variant{
	chained("tuning", map[string]any{"type": "tuning"}),
	chained("tuning sysctl", map[string]any{"type": "tuning", "sysctl": map[string]any{"net.ipv4.conf.IFNAME.rp_filter": "2", "net.ipv4.ip_local_port_range": "2000 3000"}}),
	chained("tuning sysctl of lo", map[string]any{"type": "tuning", "sysctl": map[string]any{"net/ipv4/conf/lo/rp_filter": "2"}}),
	chained("tuning unknown sysctl", map[string]any{"type": "tuning", "sysctl": map[string]any{"net.ipv4.conf.IFNAME.other": "2"}}),
	chained("tuning host sysctl", map[string]any{"type": "tuning", "sysctl": map[string]any{"kernel.domainname": "x"}}),
	chained("tuning sysctl path", map[string]any{"type": "tuning", "sysctl": map[string]any{"net.ipv4.conf.../../x": "2"}}),
	chained("tuning sysctl invalid", map[string]any{"type": "tuning", "sysctl": map[string]any{"net.ipv4.conf.IFNAME.rp_filter": "x"}}),
	chained("tuning mtu", map[string]any{"type": "tuning", "mtu": 1300}),
	chained("tuning mtu invalid", map[string]any{"type": "tuning", "mtu": 10}),
	chained("tuning mac", map[string]any{"type": "tuning", "mac": "02:00:00:00:00:21"}),
	chained("tuning mac invalid", map[string]any{"type": "tuning", "mac": "x"}),
	chained("tuning promisc", map[string]any{"type": "tuning", "promisc": true}),
	chained("tuning allmulti", map[string]any{"type": "tuning", "allmulti": true}),
	chained("tuning no allmulti", map[string]any{"type": "tuning", "allmulti": false}),
	chained("tuning txqlen", map[string]any{"type": "tuning", "txQLen": 500}),
	chained("tuning all", map[string]any{"type": "tuning", "promisc": true, "mtu": 1300, "mac": "02:00:00:00:00:22", "allmulti": true, "txQLen": 20}),
	chained("tuning directory", map[string]any{"type": "tuning", "mtu": 1300, "dataDir": "/run/tuning"}),
	{"tuning mac capability", func(d *draft) {
		plugin := map[string]any{"type": "tuning"}
		capability(d, plugin, "mac", "02:00:00:00:00:23")
		d.chain = append(d.chain, plugin)
	}},
	{"tuning mac args", func(d *draft) {
		d.chain = append(d.chain, map[string]any{"type": "tuning", "args": map[string]any{"cni": map[string]any{"mac": "02:00:00:00:00:24"}}})
	}},
	{"tuning mac CNI_ARGS", func(d *draft) {
		d.args = append(d.args, [2]string{"IgnoreUnknown", "1"}, [2]string{"MAC", "02:00:00:00:00:25"})
		d.chain = append(d.chain, map[string]any{"type": "tuning"})
	}},
}

// ruleVariants are rules that a host can have before ADD.
var ruleVariants = []variant{
	prepared("rules of others", "iptables -t nat -A POSTROUTING -s 192.0.2.0/24 -j MASQUERADE && iptables -A FORWARD -j ACCEPT && ip6tables -A FORWARD -j ACCEPT"),
	prepared("policy DROP", "iptables -P FORWARD DROP"),
	prepared("shared chains", "iptables -t nat -N CNI-HOSTPORT-DNAT && iptables -t nat -N CNI-HOSTPORT-MASQ && iptables -N CNI-FORWARD && iptables -N CNI-ADMIN"),
	prepared("shared rules", "iptables -N CNI-FORWARD && iptables -A FORWARD -m comment --comment 'CNI firewall plugin rules' -j CNI-FORWARD"),
	prepared("rules behind", "iptables -A FORWARD -m comment --comment 'CNI firewall plugin rules' -j ACCEPT && iptables -t nat -A OUTPUT -j ACCEPT && iptables -t nat -A PREROUTING -j ACCEPT"),
	prepared("nftables of others", "nft add table inet other && nft 'add chain inet other c { type filter hook forward priority 0 ; }' && nft add rule inet other c accept"),
	prepared("external chain", "iptables -t nat -N OTHER-MARK && ip6tables -t nat -N OTHER-MARK"),
}

// ruleDamages are what other programs do to rules.
var ruleDamages = []variant{
	damaged("DNAT lost", "iptables -t nat -F CNI-HOSTPORT-DNAT || true"),
	damaged("nat lost", "iptables -t nat -F"),
	damaged("nat and chains lost", "iptables -t nat -F && iptables -t nat -X"),
	damaged("first POSTROUTING lost", "iptables -t nat -D POSTROUTING 1 || true"),
	damaged("forward lost", "iptables -F FORWARD"),
	damaged("forward chain lost", "iptables -F CNI-FORWARD || true"),
	damaged("filter lost", "iptables -F; iptables -X; true"),
	damaged("tables lost", "for table in $(nft list tables | cut -d' ' -f2,3 | tr ' ' '~'); do nft delete table $(echo $table | tr '~' ' '); done"),
	damaged("rule twice", "rule=$(iptables -t nat -S POSTROUTING | grep -m1 -- '-A POSTROUTING'); [ -z \"$rule\" ] || eval iptables -t nat $rule"),
}
