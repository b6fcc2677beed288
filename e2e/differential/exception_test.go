// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package differential

import (
	"strings"
	"testing"
)

// TestExceptions: what no variant of the families has is the same as with the plugins.
func TestExceptions(t *testing.T) {
	twice := func(d *draft) {
		d.chain = append(d.chain, map[string]any{"type": "firewall"}, map[string]any{"type": "firewall", "ingressPolicy": "isolated"})
	}
	inNFTables := map[string]any{"backend": "nftables"}
	hostIP := mapping{"hostPort": 8080, "containerPort": 80, "protocol": "tcp", "hostIP": "::ffff:127.0.0.1"}
	for name, test := range map[string]struct {
		variant variant
		edit    func(*network)
	}{
		"firewall twice":                {variant{"", twice}, nil},
		"nftables, mapped host IP":      {mapped("", inNFTables, hostIP), nil},
		"nftables, 128 bytes of an ID":  {mapped("", inNFTables, web), func(n *network) { n.ContainerID = strings.Repeat("c", 128) }},
		"nftables, 129 bytes of an ID":  {mapped("", inNFTables, web), func(n *network) { n.ContainerID = strings.Repeat("c", 129) }},
		"interface named as its bridge": {variant{"", func(*draft) {}}, func(n *network) { n.IfName = "br0" }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := gatewayFamily.with([]variant{test.variant})
			if test.edit != nil {
				test.edit(&c.Networks[0])
			}
			requireSame(t, c)
		})
	}
}
