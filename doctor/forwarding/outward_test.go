// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package forwarding

import (
	"net/netip"
	"testing"

	"github.com/allocnet/allocnet/cleanup"
)

// TestOutward: what allocations send elsewhere is dropped by a policy or a rule that matches for certain, unless one before
// it accepts it.
func TestOutward(t *testing.T) {
	subnet := netip.MustParsePrefix("10.88.0.0/24")
	for rules, drops := range map[string]bool{
		":FORWARD ACCEPT [0:0]": false,
		":FORWARD DROP [0:0]":   true,
		":FORWARD DROP [0:0]\n-A FORWARD -s 10.88.0.0/16 -j ACCEPT":                            false,
		":FORWARD DROP [0:0]\n-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT": true,
		":FORWARD DROP [0:0]\n-A FORWARD -i web0 -j ACCEPT":                                    false,
		":FORWARD DROP [0:0]\n-A FORWARD -i other0 -j ACCEPT":                                  true,
		":FORWARD DROP [0:0]\n-A FORWARD -s 10.88.0.0/24 -d 10.88.0.0/24 -j ACCEPT":            true,
		":FORWARD ACCEPT [0:0]\n-A FORWARD -j REJECT --reject-with icmp-host-prohibited":       true,
		":FORWARD ACCEPT [0:0]\n-A FORWARD -s 10.88.0.0/24 -j DROP":                            true,
		":FORWARD ACCEPT [0:0]\n-A FORWARD -s 10.89.0.0/24 -j DROP":                            false,
		":FORWARD ACCEPT [0:0]\n-A FORWARD -d 198.51.100.0/24 -j DROP":                         false,
		":FORWARD DROP [0:0]\n:OTHER - [0:0]\n-A FORWARD -j OTHER\n-A OTHER -i web0 -j ACCEPT": false,
		":FORWARD DROP [0:0]\n:OTHER - [0:0]\n-A FORWARD -j OTHER\n-A OTHER -i web0 -j RETURN": true,
	} {
		f := &Facts{rulesets: []*ruleset{parseIptables(cleanup.Listing{Program: "iptables", Text: "*filter\n" + rules + "\nCOMMIT\n"})}}
		found := f.Outward(Local{Subnet: subnet, By: "web0"})
		if len(found) > 0 != drops {
			t.Errorf("%s: %+v, want an obstacle: %t", rules, found, drops)
		}
		if len(f.Outward(Local{Subnet: netip.MustParsePrefix("fd00::/64"), By: "web0"})) > 0 {
			t.Errorf("%s: of IPv4 is an obstacle for IPv6", rules)
		}
	}
}

// TestOutwardFix: the commands let pass what allocations send, and what comes back.
func TestOutwardFix(t *testing.T) {
	table, err := parseNftables(table{"inet", "mine"}, []byte(`{"nftables": [{"chain": {"family": "inet", "table": "mine", "name": "fwd", "hook": "forward", "policy": "drop"}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	f := &Facts{rulesets: []*ruleset{parseIptables(cleanup.Listing{Program: "iptables-legacy", Text: "*filter\n:FORWARD DROP [0:0]\nCOMMIT\n"}), table}, zones: []zone{{name: "public"}}}
	want := []string{
		"iptables-legacy -I FORWARD -s 10.88.0.0/24 -j ACCEPT; iptables-legacy -I FORWARD -d 10.88.0.0/24 -m conntrack --ctstate RELATED,ESTABLISHED,DNAT -j ACCEPT",
		"nft insert rule inet mine fwd ip saddr 10.88.0.0/24 accept; nft insert rule inet mine fwd ip daddr 10.88.0.0/24 ct state established,related accept; nft insert rule inet mine fwd ip daddr 10.88.0.0/24 ct status dnat accept",
		"firewall-cmd --permanent --zone=trusted --add-source=10.88.0.0/24 && firewall-cmd --reload",
	}
	found := f.Outward(Local{Subnet: netip.MustParsePrefix("10.88.0.0/24")})
	if len(found) != len(want) {
		t.Fatalf("%+v", found)
	}
	for i, o := range found {
		if o.Fix != want[i] {
			t.Errorf("%s: %s, want %s", o.Subject, o.Fix, want[i])
		}
	}
}
