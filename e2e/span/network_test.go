// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package span

import (
	"fmt"
	"slices"
	"strings"
)

// networks have a pool each, of their own name. The third client has no part in those of mode
// routed.
var networks = []string{"auto-ptp", "auto-bridge", "routed-ptp", "routed-bridge", "vxlan-ptp", "vxlan-bridge"}

// configurations are the plugins of the networks. Bridges have the MTU that docs/cluster.md
// says, and the others rely on path MTU discovery.
func configurations() map[string]string {
	plugins := map[string]string{small: smallPlugin, apart: apartPlugin}
	for i, name := range networks {
		mode, plugin, _ := strings.Cut(name, "-")
		kind := `"type": "ptp"`
		if plugin == "bridge" {
			kind = fmt.Sprintf(`"type": "bridge", "bridge": "br-%s", "isGateway": true, "mtu": 1450`, mode)
		}
		plugins[name] = fmt.Sprintf(`{%s, "ipMasq": true, "ipam": {"type": "allocnet-ipam", "pool": %q, "mode": %q,
			"ranges": [{"subnet": "10.9%[4]d.0.0/16"}, {"subnet": "fd9%[4]d::/64"}], "blockSize": {"4": 28, "6": 124}, "cooldown": "5s"}}`,
			kind, name, mode, i+3)
	}
	return plugins
}

// spans reports whether a network has a way to a client.
func spans(network, client string) bool {
	return client != "c3" || !strings.HasPrefix(network, "routed-")
}

// shared are the networks on which two clients reach each other.
func shared(one, other string) []string {
	return slices.DeleteFunc(slices.Clone(networks), func(network string) bool {
		return one != other && (!spans(network, one) || !spans(network, other))
	})
}
