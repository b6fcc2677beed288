// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package forwarding

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/internal/roottest"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// closings are commands that close a host to what is forwarded, each with the one that opens it. IPT is a program of iptables, and FAMILY a
// family of nftables.
var closings = map[string]struct{ close, open string }{
	"policy":           {"IPT -P FORWARD DROP", "IPT -P FORWARD ACCEPT; IPT -F FORWARD"},
	"last rule":        {"IPT -A FORWARD -j DROP", "IPT -F FORWARD"},
	"Docker":           {"IPT -N DOCKER-USER; IPT -A FORWARD -j DOCKER-USER; IPT -P FORWARD DROP", "IPT -P FORWARD ACCEPT; IPT -F FORWARD; IPT -F DOCKER-USER; IPT -X DOCKER-USER"},
	"rule of nftables": {"nft add table FAMILY t; nft 'add chain FAMILY t c { type filter hook forward priority 0; }'; nft add rule FAMILY t c counter drop", "nft delete table FAMILY t"},
	"two chains":       {"nft add table FAMILY t-1.x; for c in a-1.x b; do nft \"add chain FAMILY t-1.x $c { type filter hook forward priority 0; policy drop; }\"; done", "nft delete table FAMILY t-1.x"},
}

// TestRootFixes runs what is printed as a fix, with each closing of each rule system and family: afterwards the kernel has what
// opens the host, and the obstacle is no more.
func TestRootFixes(t *testing.T) {
	roottest.Require(t)
	for family, subnet := range map[string]string{"ip": "10.100.0.0/16", "ip6": "fd00:100::/64", "inet": "10.100.0.0/16", "inet6": "fd00:100::/64"} {
		for _, program := range []string{"iptables-nft", "iptables-legacy"} {
			if strings.HasPrefix(subnet, "fd") {
				program = strings.Replace(program, "ip", "ip6", 1)
			}
			for name, c := range closings {
				if strings.Contains(c.close, "nft ") && strings.Contains(program, "legacy") || strings.Contains(c.close, "IPT") && strings.HasPrefix(family, "inet") {
					continue
				}
				replace := strings.NewReplacer("IPT", program, "FAMILY", kernelFamily(family))
				for kind, obstacles := range map[string]func(*Facts) []Obstacle{
					"alone": func(f *Facts) []Obstacle {
						return f.Outward(Local{Subnet: netip.MustParsePrefix(subnet), Publishes: true})
					},
					"pool": func(f *Facts) []Obstacle { return f.Obstacles([]*ipam.Config{pool(t, "routed")}) },
				} {
					t.Run(strings.Join([]string{family, program, name, kind}, ", "), func(t *testing.T) {
						run(t, replace.Replace(c.close))
						defer run(t, replace.Replace(c.open))
						requireFixed(t, obstacles)
					})
				}
			}
		}
	}
}

// requireFixed requires that there are obstacles, and none after their fixes.
func requireFixed(t *testing.T, obstacles func(*Facts) []Obstacle) {
	t.Helper()
	found := obstacles(Collect(t.Context(), netip.Addr{}, true))
	if len(found) == 0 {
		t.Error("nothing is found")
	}
	for _, o := range found {
		run(t, o.Fix)
	}
	for _, o := range obstacles(Collect(t.Context(), netip.Addr{}, true)) {
		t.Errorf("after all fixes: %+v", o)
	}
}

func run(t *testing.T, command string) {
	t.Helper()
	sandbox.Run(t, "sh", "-ec", command)
}

// kernelFamily is the family of nftables.
func kernelFamily(family string) string {
	if family == "inet6" {
		return "inet"
	}
	return family
}
