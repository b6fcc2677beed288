// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package differential

import "fmt"

// allocationFamily are allocations with several networks, whose changes are made together.
var allocationFamily = family{
	name: "allocation",
	basic: func() *draft {
		d := hostLocal(map[string]any{"type": "bridge", "bridge": "br0", "isGateway": true, "ipMasq": true})
		d.chain = []map[string]any{{"type": "firewall"}, {"type": "portmap", "capabilities": map[string]any{"portMappings": true}}}
		d.capabilities = map[string]any{"portMappings": []mapping{web}}
		d.more = []network{another(1, `{"type":"bridge","bridge":"br1","isGateway":true,"ipMasq":true,"ipam":{"type":"host-local","subnet":"10.61.0.0/24"}}`)}
		return d
	},
	dimensions: [][]variant{
		{
			joined("without addresses", another(2, `{"type":"bridge","bridge":"br2"}`)),
			joined("one bridge", another(2, `{"type":"bridge","bridge":"br0","isGateway":true,"ipMasq":true,"ipam":{"type":"host-local","subnet":"10.50.0.0/24"}}`)),
			joined("v6", another(2, `{"type":"bridge","bridge":"br2","isGateway":true,"ipMasq":true,"ipam":{"type":"host-local","subnet":"fd00:62::/64"}}`)),
			joined("nftables", another(2, `{"type":"bridge","bridge":"br2","isGateway":true,"ipMasq":true,"ipMasqBackend":"nftables","ipam":{"type":"host-local","subnet":"10.62.0.0/24"}}`)),
			joined("ptp", another(2, `{"type":"ptp","ipMasq":true,"ipam":{"type":"host-local","subnet":"10.62.0.0/24"}}`)),
			joined("loopback", another(2, `{"type":"loopback"}`)),
			joined("invalid", another(2, `{"type":"bridge","bridge":"br2","vlan":5000}`)),
		},
		{joined("five", another(3, `{"type":"bridge","bridge":"br3"}`), another(4, `{"type":"bridge","bridge":"br4"}`))},
		{joined("more ports", network{
			List:         `{"cniVersion":"1.0.0","name":"ports","plugins":[{"type":"bridge","bridge":"br5","isGateway":true,"ipam":{"type":"host-local","subnet":"10.65.0.0/24"}},{"type":"portmap","capabilities":{"portMappings":true}}]}`,
			Capabilities: `{"portMappings":[{"hostPort":9090,"containerPort":90,"protocol":"tcp"}]}`,
		})},
	},
	shared:   [][]variant{ruleVariants, ruleDamages, scripts},
	combined: 30,
}

// another returns a network of one plugin.
func another(number int, plugin string) network {
	return network{List: fmt.Sprintf(`{"cniVersion":"1.0.0","name":"net%d","plugins":[%s]}`, number, plugin)}
}

// joined returns a variant in which an allocation has more networks.
func joined(name string, networks ...network) variant {
	return variant{name, func(d *draft) { d.more = append(d.more, networks...) }}
}

// legacyFamily are rules of the old backend of iptables.
var legacyFamily = family{
	name: "legacy",
	basic: func() *draft {
		d := allocationFamily.basic()
		d.legacy = true
		return d
	},
	dimensions: [][]variant{{ranges("dual", v4, v6), ranges("v6", v6)}, ruleVariants, ruleDamages, {set("nftables", map[string]any{"ipMasqBackend": "nftables"})}},
	combined:   10,
}
