// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package differential

// loopbackFamily is the loopback interface.
var loopbackFamily = family{
	name:  "loopback",
	basic: func() *draft { return &draft{version: "1.0.0", plugin: map[string]any{"type": "loopback"}} },
	dimensions: [][]variant{
		scripts, versions,
		{
			prepared("lo up", "ip -n sandbox link set lo up"),
			prepared("lo has addresses", "ip -n sandbox link set lo up && ip -n sandbox addr add 127.0.0.2/8 dev lo"),
			prepared("lo has another address", "ip -n sandbox addr add 10.0.0.1/32 dev lo"),
			prepared("lo has another IPv6 address", "ip -n sandbox addr add fd00::1/128 dev lo"),
		},
		{damaged("lo down", "ip -n sandbox link set lo down || true")},
	},
	combined: 5,
}
