// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package differential

import (
	"strings"
	"testing"
)

// TestDifferencesAreFound: the comparison fails if one thing is different.
func TestDifferencesAreFound(t *testing.T) {
	const port = `$(ls /sys/class/net/br0/brif)`
	tests := []struct {
		name, command string
		// after is the step after which the command is run, and want is in the difference.
		after int
		want  string
	}{
		{"hairpin", "ip link set dev " + port + " type bridge_slave hairpin on", 0, "+link veth#0 linkinfo port hairpin=1"},
		{"isolated", "ip link set dev " + port + " type bridge_slave isolated on", 0, "+link veth#0 linkinfo port isolated=1"},
		{"mtu", "ip -n sandbox link set eth0 mtu 1499", 0, "+inside link eth0 mtu=1499"},
		{"group", "ip link set br0 group 7", 0, "+link br0 group=7"},
		{"bridge down", "ip link set br0 down", 0, "-link br0 peer= flags"},
		{"sysctl of a link", "ip netns exec sandbox sysctl -qw net.ipv4.conf.eth0.arp_notify=1", 0, "+inside link eth0 sysctl ipv4 conf"},
		{"IPv6 sysctl of a link", "sysctl -qw net.ipv6.conf.br0.accept_ra=1", 0, "+link br0 sysctl ipv6 conf"},
		{"sysctl", "sysctl -qw net.ipv4.ip_forward=1", 0, "+sysctl net/ipv4/ip_forward=1"},
		{"address", "ip -n sandbox addr add 10.1.2.3/24 dev eth0", 0, "+inside address of eth0/24"},
		{"lifetime", "ip addr add fd00::1/64 dev br0 nodad valid_lft 3600 preferred_lft 3600", 0, "+address of br0/64"},
		{"route", "ip -n sandbox route add 192.0.2.0/24 dev eth0 metric 9 table 77", 0, "table=77 metric=9"},
		{"rule of routing", "ip -n sandbox rule add from 192.0.2.0/24 table 77", 0, "+inside rule"},
		{"neighbour", "ip neigh add 192.0.2.1 lladdr 02:00:00:00:00:31 dev br0", 0, "+neighbour of br0"},
		{"queue", "tc qdisc add dev br0 root pfifo", 0, "kind=pfifo"},
		{"rule", "iptables -t nat -A POSTROUTING -s 192.0.2.1 -j ACCEPT -m comment --comment other", 0, "+iptables-nft-save *nat POSTROUTING 1"},
		{"nftables", "nft add table inet other", 0, "+nft  table inet other"},
		{"lease", "mkdir -p /var/lib/cni/networks/net && : >/var/lib/cni/networks/net/10.50.0.2", 2, "+file /var/lib/cni/networks/net/10.50.0.2"},
		{"cached result", "rm -r /var/lib/cni/results", 0, "-file /var/lib/cni/results"},
		{"link left", "ip link add left type veth peer name over", 2, "+link left"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := bridgeFamily.with(nil)
			c.Steps = []string{add, check, del}
			c.Sabotage, c.SabotageAfter = tt.command, tt.after
			a := compare(t, c)
			if a.Failure != "" {
				t.Fatal(a.Failure)
			}
			if len(a.Differences) != len(assignments) || !strings.Contains(a.Differences[0], tt.want) {
				t.Errorf("want a difference with %q, got: %s", tt.want, strings.Join(a.Differences, "\n"))
			}
		})
	}
}
