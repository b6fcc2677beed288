// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package differential

// limited returns a variant with bandwidth, whose limits are those of a capability.
func limited(name string, limits map[string]any) variant {
	return variant{name, func(d *draft) {
		plugin := map[string]any{"type": "bandwidth"}
		capability(d, plugin, "bandwidth", limits)
		d.chain = append(d.chain, plugin)
	}}
}

// bandwidthVariants are those of bandwidth.
var bandwidthVariants = []variant{
	chained("bandwidth", map[string]any{"type": "bandwidth"}),
	chained("bandwidth in", map[string]any{"type": "bandwidth", "ingressRate": 8000000, "ingressBurst": 80000}),
	chained("bandwidth out", map[string]any{"type": "bandwidth", "egressRate": 16000000, "egressBurst": 160001}),
	chained("bandwidth both", map[string]any{"type": "bandwidth", "ingressRate": 8000000, "ingressBurst": 2147483647, "egressRate": 8000000000, "egressBurst": 20000}),
	chained("bandwidth zero", map[string]any{"type": "bandwidth", "ingressRate": 0, "ingressBurst": 0, "egressRate": 0, "egressBurst": 0}),
	chained("bandwidth without burst", map[string]any{"type": "bandwidth", "ingressRate": 8000000}),
	chained("bandwidth without rate", map[string]any{"type": "bandwidth", "egressBurst": 8000000}),
	chained("bandwidth too much", map[string]any{"type": "bandwidth", "egressRate": 8000000, "egressBurst": 34359738368}),
	chained("bandwidth negative", map[string]any{"type": "bandwidth", "ingressRate": -1, "ingressBurst": 1}),
	limited("bandwidth capability", map[string]any{"ingressRate": 8000000, "ingressBurst": 80000, "egressRate": 16000000, "egressBurst": 160000}),
	{"bandwidth capability and keys", func(d *draft) {
		limited("", map[string]any{"ingressRate": 8000000, "ingressBurst": 80000}).apply(d)
		d.chain[len(d.chain)-1]["egressRate"], d.chain[len(d.chain)-1]["egressBurst"] = 8000000, 80000
	}},
}

// bandwidthDamages are what other programs do to limits.
var bandwidthDamages = []variant{
	damaged("devices lost", "for link in $(ip -o link show type ifb | sed 's/^[0-9]*: *//; s/[@:].*//'); do ip link del $link; done"),
	damaged("limits changed", "for link in $(tc qdisc show | grep tbf | sed 's/.* dev //; s/ .*//'); do tc qdisc change dev $link root tbf rate 9mbit burst 90kb latency 25ms; done"),
	damaged("limits lost", "for link in $(tc qdisc show | grep tbf | sed 's/.* dev //; s/ .*//'); do tc qdisc del dev $link root; done"),
}
