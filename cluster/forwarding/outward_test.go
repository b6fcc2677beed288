// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package forwarding

import (
	"net/netip"
	"strings"
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

// TestInward: what comes to published ports is dropped, also where what allocations send is accepted, as by the plugin firewall.
func TestInward(t *testing.T) {
	for rules, drops := range map[string]bool{
		":FORWARD ACCEPT [0:0]": false,
		":FORWARD ACCEPT [0:0]\n-A FORWARD -d 10.88.0.0/24 -j DROP":                                                      true,
		":FORWARD ACCEPT [0:0]\n-A FORWARD -o web0 -m conntrack ! --ctstate RELATED,ESTABLISHED -j DROP":                 true,
		":FORWARD ACCEPT [0:0]\n-A FORWARD -m conntrack --ctstate DNAT -j ACCEPT\n-A FORWARD -d 10.88.0.0/24 -j DROP":    false,
		":FORWARD ACCEPT [0:0]\n-A FORWARD -d 10.88.0.0/24 -p udp -j DROP":                                               false,
		":FORWARD DROP [0:0]\n:CNI-FORWARD - [0:0]\n-A FORWARD -j CNI-FORWARD\n-A CNI-FORWARD -s 10.88.0.5/32 -j ACCEPT": true,
		":FORWARD DROP [0:0]\n-A FORWARD -d 10.88.0.0/24 -j ACCEPT":                                                      false,
	} {
		f := &Facts{rulesets: []*ruleset{parseIptables(cleanup.Listing{Program: "iptables", Text: "*filter\n" + rules + "\nCOMMIT\n"})}}
		local := Local{Subnet: webSubnets["ip"], By: "web0", Publishes: true, HasFirewall: true}
		found := f.Outward(local)
		if len(found) > 0 != drops || drops && !strings.Contains(found[0].Problem, "drops what comes to published ports") {
			t.Errorf("%s: %+v, want an obstacle: %t", rules, found, drops)
		}
		if local.Publishes = false; len(f.Outward(local)) > 0 {
			t.Errorf("%s: is an obstacle without published ports", rules)
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

// usualRules are those of programs that are often there, which accept nothing of allocations.
var usualRules = map[string]string{
	"docker": `:DOCKER - [0:0]
:DOCKER-BRIDGE - [0:0]
:DOCKER-CT - [0:0]
:DOCKER-FORWARD - [0:0]
:DOCKER-INGRESS - [0:0]
:DOCKER-ISOLATION-STAGE-1 - [0:0]
:DOCKER-USER - [0:0]
-A FORWARD -j DOCKER-USER
-A FORWARD -j DOCKER-FORWARD
-A FORWARD -j DOCKER-INGRESS
-A FORWARD -o docker0 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A FORWARD -o docker0 -j DOCKER
-A FORWARD -i docker0 ! -o docker0 -j ACCEPT
-A DOCKER -d 172.17.0.2/32 ! -i docker0 -o docker0 -p tcp -m tcp --dport 80 -j ACCEPT
-A DOCKER ! -i docker0 -o docker0 -j DROP
-A DOCKER-BRIDGE -m set --match-set docker-ext-bridges-v4 dst -j DOCKER
-A DOCKER-CT -m set --match-set docker-ext-bridges-v4 dst -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A DOCKER-FORWARD -j DOCKER-CT
-A DOCKER-FORWARD -j DOCKER-ISOLATION-STAGE-1
-A DOCKER-FORWARD -j DOCKER-BRIDGE
-A DOCKER-FORWARD -i docker0 -j ACCEPT
-A DOCKER-INGRESS -p tcp -m tcp --dport 8080 -j ACCEPT
-A DOCKER-USER -j RETURN`,
	"ufw": `:ufw-before-forward - [0:0]
:ufw-skip-to-policy-forward - [0:0]
:ufw-logging-deny - [0:0]
-A FORWARD -j ufw-before-forward
-A FORWARD -j ufw-logging-deny
-A ufw-before-forward -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A ufw-before-forward -p icmp -m icmp --icmp-type 3 -j ACCEPT
-A ufw-before-forward -p icmp -m icmp --icmp-type 8 -j ACCEPT
-A ufw-logging-deny -m limit --limit 3/min --limit-burst 10 -j LOG --log-prefix "[UFW BLOCK] "
-A ufw-skip-to-policy-forward -j DROP`,
	"libvirt": `:LIBVIRT_FWO - [0:0]
-A FORWARD -j LIBVIRT_FWO
-A LIBVIRT_FWO -s 192.168.122.0/24 -i virbr0 -j ACCEPT`,
	"CNI": `:CNI-FORWARD - [0:0]
-A FORWARD -m comment --comment "CNI firewall plugin rules" -j CNI-FORWARD
-A CNI-FORWARD -d 10.89.0.5/32 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A CNI-FORWARD -s 10.89.0.5/32 -j ACCEPT`,
}

// TestUsualRules: a policy is found behind the rules of usual programs, and not where one of them is added that lets
// allocations through.
func TestUsualRules(t *testing.T) {
	for name, rules := range usualRules {
		for more, want := range map[string]int{"": 1, "\n-A FORWARD -i web0 -o up0 -j ACCEPT": 0, "\n-A FORWARD -m mark --mark 0x1 -j ACCEPT": 0} {
			text := "*filter\n:FORWARD DROP [0:0]\n" + rules + more + "\nCOMMIT\n"
			f := &Facts{rulesets: []*ruleset{parseIptables(cleanup.Listing{Program: "iptables", Text: text})}}
			if found := f.Outward(Local{Subnet: webSubnets["ip"], By: "web0"}); len(found) != want {
				t.Errorf("%s%s: %+v, want %d", name, more, found, want)
			}
		}
	}
}

// TestOutwardTargets: what a target does that is no chain, as far as it is known.
func TestOutwardTargets(t *testing.T) {
	for rule, want := range map[string]int{
		"-j LOG --log-prefix \"a b\"": 1, "-j MARK --set-xmark 0x1/0xffffffff": 1, "-j NFQUEUE --queue-num 0": 0, "-j LATER": 0,
		"-g LATER": 0, "-m \"x": 0,
	} {
		f := &Facts{rulesets: []*ruleset{parseIptables(cleanup.Listing{Program: "iptables", Text: "*filter\n:FORWARD DROP [0:0]\n-A FORWARD " + rule + "\nCOMMIT\n"})}}
		if found := f.Outward(Local{Subnet: webSubnets["ip"], By: "web0"}); len(found) != want {
			t.Errorf("%s: %+v, want %d", rule, found, want)
		}
	}
}

// TestOutwardInterfaces: packets of the plugin ptp come from one of its pairs, and those of an interface of a VRF from the VRF.
func TestOutwardInterfaces(t *testing.T) {
	for _, test := range []struct {
		by, rule string
		want     int
	}{
		{Pairs, "-i veth+", 0},
		{Pairs, "-i vet+", 0},
		{Pairs, "-i veth1234", 0},
		{Pairs, "-i docker0", 1},
		{"web0.7", "-i web0.7", 0},
		{"web0.7", "-i web0", 1},
		{"red0", "-i red", 0},
		{"red0", "-i red0", 0},
		{"red0", "-i blue", 0},
		{"", "-i any0", 0},
	} {
		s := parseIptables(cleanup.Listing{Program: "iptables", Text: "*filter\n:FORWARD DROP [0:0]\n-A FORWARD " + test.rule + " -j ACCEPT\nCOMMIT\n"})
		f := &Facts{rulesets: []*ruleset{s}, inVRF: []string{"red0"}}
		if found := f.Outward(Local{Subnet: webSubnets["ip"], By: test.by}); len(found) != test.want {
			t.Errorf("%+v: %+v", test, found)
		}
	}
}

// TestOutwardPorts: published ports are mentioned only if what comes to them is dropped, too.
func TestOutwardPorts(t *testing.T) {
	for rule, want := range map[string]bool{
		"-i bad0 -s 10.0.9.0/24 -d 10.88.0.0/25 -j ACCEPT": false, "-m conntrack --ctstate DNAT -j ACCEPT": false, "-o web0 -j ACCEPT": false,
		"-o bad0 -j DROP": true, "-d 10.88.0.0/24 -j DROP": true, "-o web0 -m conntrack --ctstate ESTABLISHED -j ACCEPT": true,
	} {
		f := &Facts{rulesets: []*ruleset{parseIptables(cleanup.Listing{Program: "iptables", Text: "*filter\n:FORWARD DROP [0:0]\n-A FORWARD " + rule + "\nCOMMIT\n"})}}
		found := f.Outward(Local{Subnet: webSubnets["ip"], By: "web0"})
		if len(found) != 1 || strings.Contains(found[0].Problem, "published ports") != want {
			t.Errorf("%s: %+v, want published ports: %t", rule, found, want)
		}
	}
}

// TestOutwardFirewall: the plugin firewall accepts packets in the chain FORWARD of its kind of iptables alone.
func TestOutwardFirewall(t *testing.T) {
	const text = "*filter\n:FORWARD DROP [0:0]\nCOMMIT\n"
	of := func(name, chain string) *ruleset {
		s, err := parseNftables(table{"ip", name}, []byte(`{"nftables": [{"chain": {"name": "`+chain+`", "hook": "forward", "policy": "drop"}}]}`))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	f := &Facts{zones: []zone{}, rulesets: []*ruleset{
		parseIptables(cleanup.Listing{Program: "iptables-nft", Text: text}), parseIptables(cleanup.Listing{Program: "iptables-legacy", Text: text}),
		parseIptables(cleanup.Listing{Program: "iptables", Text: text}), of("filter", forwardChain), of("mine", forwardChain), of("filter", "own"),
	}}
	for kind, want := range map[string]string{
		"":       "nft table ip mine, nft table ip filter",
		"nft":    "iptables-legacy, nft table ip mine, nft table ip filter",
		"legacy": "iptables-nft, nft table ip filter, nft table ip mine, nft table ip filter",
	} {
		var subjects []string
		for _, o := range f.Outward(Local{Subnet: webSubnets["ip"], By: "web0", HasFirewall: true, IPTables: kind}) {
			subjects = append(subjects, o.Subject)
		}
		if got := strings.Join(subjects, ", "); got != want {
			t.Errorf("with iptables %q: %s, want %s", kind, got, want)
		}
	}
	if got := len(f.Outward(Local{Subnet: webSubnets["ip"], By: "web0", HasFirewall: true, WithoutIPTables: true})); got != len(f.rulesets) {
		t.Errorf("without iptables %d of %d drop", got, len(f.rulesets))
	}
}
