// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package forwarding

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/cleanup"
	"github.com/allocnet/allocnet/internal/roottest"
)

// problems are those of obstacles, one a line.
func problems(found []Obstacle) string {
	var all []string
	for _, o := range found {
		all = append(all, o.Subject+": "+o.Problem)
	}
	return strings.Join(all, "\n")
}

// TestNeighbours: what the host routes between attachments of one network is dropped by a chain for certain, or nothing is told.
func TestNeighbours(t *testing.T) {
	for rule, want := range map[string]bool{
		"": true, "-i web0 -o web0 -j ACCEPT": false, "-i web0 ! -o web0 -j ACCEPT": true, "-s 10.88.0.0/24 -j ACCEPT": false,
		"-m set --match-set x src -j ACCEPT": false, "-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT": true, "-d 10.89.0.0/24 -j ACCEPT": true,
	} {
		lines := []string{":FORWARD DROP [0:0]"}
		if rule != "" {
			lines = append(lines, "-A FORWARD "+rule)
		}
		f := &Facts{rulesets: []*ruleset{parseIptables(cleanup.Listing{Program: "iptables-nft", Text: iptablesSave(lines...)})}}
		found := f.Neighbours(webSubnets["ip"], "web0", true)
		if len(found) > 0 != want || want && found[0].Fix != "iptables-nft -I FORWARD -s 10.88.0.0/24 -d 10.88.0.0/24 -j ACCEPT" {
			t.Errorf("%q: %+v, want a drop: %t", rule, found, want)
		}
		if found := f.Neighbours(webSubnets["ip6"], "web0", true); len(found) > 0 {
			t.Errorf("IPv6: %+v", found)
		}
		if found := f.Neighbours(webSubnets["ip"], "no-such-bridge", false); len(found) > 0 && !isFiltered("no-such-bridge", false) {
			t.Errorf("what a bridge forwards: %+v", found)
		}
	}
	f := mustParse(t, "inet", nftWorld("inet", `{"drop": null}`, world{"", "drop", "drop"}))
	f.rulesets[0].isZones = true
	if found := f.Neighbours(webSubnets["ip"], "web0", true); len(found) != 1 || !strings.HasPrefix(found[0].Fix, "firewall-cmd ") {
		t.Errorf("firewalld: %+v", found)
	}
}

// TestUntracked: rules that take packets of a network from connection tracking are told, and no others.
func TestUntracked(t *testing.T) {
	for rule, want := range map[string]bool{
		"-j CT --notrack": true, "-j NOTRACK": true, "-s 10.88.0.0/16 -j CT --notrack": true, "-d 10.88.0.7/32 -j CT --notrack": true,
		"-p udp -m udp --dport 53 -j CT --notrack": true, "-i web0 -j NOTRACK": true, "-i lo -j NOTRACK": true, // to the network
		"-s 10.89.0.0/24 -d 10.89.0.0/24 -j NOTRACK": false, "-s 10.88.0.0/24 -i bad0 -j NOTRACK": false,
		"-j CT --zone 1": false, "-j ACCEPT": false,
	} {
		f := &Facts{Listings: []cleanup.Listing{{Program: "iptables-legacy", Text: "*raw\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING " + rule + "\nCOMMIT\n*filter\n-A FORWARD -j NOTRACK\nCOMMIT\n"}}}
		found := f.Bypasses(webSubnets["ip"], "web0")
		if len(found) > 0 != want || want && !strings.Contains(found[0].Fix, "iptables-legacy -t raw -I PREROUTING -s 10.88.0.0/24 -j ACCEPT") {
			t.Errorf("%s: %+v, want it told: %t", rule, found, want)
		}
		if found := f.Bypasses(webSubnets["ip6"], "web0"); len(found) > 0 {
			t.Errorf("%s, IPv6: %+v", rule, found)
		}
	}
}

// TestBeside: flowtables with the interface of a network are told, and rules by which the host routes frames, of any network.
func TestBeside(t *testing.T) {
	flowtable := func(dev string) string {
		return `{"nftables": [{"flowtable": {"family": "inet", "name": "f", "table": "fw", "hook": "ingress", "prio": 0, "dev": ` + dev + `}},
			{"chain": {"family": "inet", "table": "fw", "name": "c", "type": "filter", "hook": "forward", "policy": "accept"}}]}`
	}
	for dev, want := range map[string]int{`["eth0", "web0"]`: 1, `"web0"`: 1, `["eth0"]`: 0, `"eth0"`: 0} {
		found := mustParse(t, "inet", flowtable(dev)).Bypasses(webSubnets["ip"], "web0")
		if len(found) != want || want > 0 && !strings.HasPrefix(found[0].Problem, "the flowtable f has web0") {
			t.Errorf("%s: %+v", dev, found)
		}
	}
	for value, want := range map[string]bridgeTable{
		`{"mangle": {"key": {"meta": {"key": "broute"}}, "value": 1}}`: {name: "b", arrives: true, routes: true},
		`{"mangle": {"key": {"meta": {"key": "mark"}}, "value": 1}}`:   {name: "b", arrives: true},
	} {
		text := `{"nftables": [{"chain": {"family": "bridge", "table": "b", "name": "c", "hook": "prerouting"}}, {"rule": {"chain": "c", "expr": [{"counter": null}, ` + value + `]}}]}`
		got := parseBridges(table{"bridge", "b"}, []byte(text))
		if got != want {
			t.Errorf("%s: %+v", value, got)
		}
		if found := (&Facts{bridgeTables: []bridgeTable{got}}).Bypasses(webSubnets["ip6"], "web0"); len(found) > 0 != want.routes {
			t.Errorf("%s: %+v", value, found)
		}
	}
	if got := parseBridges(table{"bridge", "b"}, []byte(`{"nftables": [{"chain": {"family": "bridge", "name": "c", "hook": "forward"}}]}`)); !got.forwards {
		t.Errorf("a chain of what bridges forward: %+v", got)
	}
	if got := parseBridges(table{"bridge", "b"}, []byte("no JSON")); !got.forwards || !got.arrives {
		t.Errorf("what cannot be read: %+v", got)
	}
}

// TestRootBypasses: what the kernel has is told, and is gone after its fix.
func TestRootBypasses(t *testing.T) {
	roottest.Require(t)
	run(t, "ip link add web0 type bridge")
	defer run(t, "ip link delete web0")
	subnet := netip.MustParsePrefix("10.88.0.0/24")
	found := func() []Obstacle { return Collect(t.Context(), netip.Addr{}, true).Bypasses(subnet, "web0") }
	for name, test := range map[string]struct{ do, undo, want string }{
		"iptables": {"iptables-nft -t raw -A PREROUTING -j CT --notrack", "iptables-nft -t raw -F", "iptables-nft: the rule -A PREROUTING -j CT --notrack takes packets from connection tracking"},
		"nftables": {"nft add table inet t; nft 'add chain inet t c { type filter hook prerouting priority raw; }'; nft add rule inet t c meta l4proto udp notrack", "nft delete table inet t",
			"nft table inet t: a rule of the chain c takes packets from connection tracking"},
	} {
		run(t, test.do)
		all := found()
		if got := problems(all); len(all) != 1 || !strings.HasPrefix(got, test.want) {
			t.Errorf("%s: %q, want %s", name, got, test.want)
		}
		if len(all) == 1 && strings.Contains(all[0].Fix, "10.88.0.0/24") {
			run(t, all[0].Fix)
			if all := found(); len(all) > 0 {
				t.Errorf("%s after its fix: %+v", name, all)
			}
		}
		run(t, test.undo)
		if all := found(); len(all) > 0 {
			t.Errorf("%s is undone: %+v", name, all)
		}
	}
}
