// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package forwarding

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/allocnet/allocnet/cleanup"
	"github.com/allocnet/allocnet/cluster/ipam"
)

// pool returns a pool of a mode with a subnet of each family.
func pool(t *testing.T, mode string) *ipam.Config {
	t.Helper()
	c, err := ipam.Parse([]byte(`{"pool": "p", "mode": "` + mode + `", "ranges": [{"subnet": "10.100.0.0/16"}, {"subnet": "fd00:100::/64"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// requireObstacles compares the obstacles of a pool with "subject: problem => fix".
func requireObstacles(t *testing.T, f *Facts, mode string, want ...string) {
	t.Helper()
	var got []string
	for _, o := range f.Obstacles([]*ipam.Config{pool(t, mode)}) {
		got = append(got, o.Subject+": "+o.Problem+" => "+o.Fix)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestSettings(t *testing.T) {
	const underlay = "net.ipv4.conf.eth0."
	for name, test := range map[string]struct {
		facts Facts
		mode  string
		want  []string
	}{
		"all is right":       {Facts{ipv4: "1", ipv6: "1", Underlay: Interface{Name: "eth0", forwards: "1"}}, "auto", nil},
		"no kernel settings": {Facts{}, "vxlan", nil},
		"a flat pool":        {Facts{ipv4: "0", ipv6: "0", Underlay: Interface{Name: "eth0", strict: true, forwards: "0"}}, "flat", nil},
		"no forwarding": {Facts{ipv4: "0", ipv6: "0", Underlay: Interface{Name: "eth0", forwards: "0"}}, "routed", []string{
			"net.ipv4.ip_forward: is 0: this host forwards nothing to its allocations from other hosts => sysctl -w net.ipv4.ip_forward=1",
			"net.ipv6.conf.all.forwarding: is 0: this host forwards no IPv6 to its allocations from other hosts => " + ForwardIPv6,
		}},
		"the interface does not forward": {Facts{ipv4: "1", ipv6: "1", Underlay: Interface{Name: "eth0", forwards: "0"}}, "routed", []string{
			"net.ipv4.conf.eth0.forwarding: is 0: this host forwards nothing that other hosts send to this interface => sysctl -w net.ipv4.conf.eth0.forwarding=1",
		}},
		"an interface with a dot": {Facts{ipv4: "1", ipv6: "1", Underlay: Interface{Name: "eth0.7", forwards: "0"}}, "routed", []string{
			"net.ipv4.conf.eth0/7.forwarding: is 0: this host forwards nothing that other hosts send to this interface => sysctl -w net.ipv4.conf.eth0/7.forwarding=1",
		}},
		"strict": {Facts{Underlay: Interface{Name: "eth0", strict: true}}, "auto", []string{
			underlay + "rp_filter: is 1 (strict), or that of all interfaces is: packets that another host routes, and this host answers over VXLAN, are dropped => sysctl -w " + underlay + "rp_filter=2",
		}},
		"strict without VXLAN": {Facts{Underlay: Interface{Name: "eth0", strict: true}}, "routed", nil},
	} {
		t.Run(name, func(t *testing.T) { requireObstacles(t, &test.facts, test.mode, test.want...) })
	}
}

// TestForwardingInUse: forwarding that is off is a warning until the host has an attachment.
func TestForwardingInUse(t *testing.T) {
	for address, want := range map[string]bool{"192.0.2.1/24": true, "10.100.0.2/32": true, "10.100.0.1/16": false, "fd00:100::1/128": false} {
		f := Facts{ipv4: "0", ipv6: "0", Addresses: []Address{{"eth0", netip.MustParsePrefix(address)}}}
		for _, o := range f.Obstacles([]*ipam.Config{pool(t, "routed")}) {
			if o.IsWarning != want {
				t.Errorf("with %s %s is a warning: %v, want %v", address, o.Subject, o.IsWarning, want)
			}
		}
	}
}

// iptablesSave is a listing of the table filter.
func iptablesSave(lines ...string) string {
	return "*nat\n:FORWARD DROP [0:0]\nCOMMIT\n*filter\n:INPUT DROP [0:0]\n" + strings.Join(lines, "\n") + "\nCOMMIT\n"
}

func TestIptables(t *testing.T) {
	const insert = " => iptables-nft -I FORWARD -s 10.100.0.0/16 -d 10.100.0.0/16 -j ACCEPT"
	const policy = "iptables-nft: the policy of the chain FORWARD drops packets of other hosts to 10.100.0.0/16"
	for name, test := range map[string]struct {
		lines []string
		want  string
	}{
		"accept":   {[]string{":FORWARD ACCEPT [0:0]"}, ""},
		"no chain": {nil, ""},
		"drop":     {[]string{":FORWARD DROP [0:0]"}, policy + insert},
		"docker": {[]string{":FORWARD DROP [0:0]", ":DOCKER-USER - [0:0]", "-A FORWARD -j DOCKER-USER", "-A FORWARD -o docker0 -j ACCEPT", "-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT", "-A DOCKER-USER -j RETURN"},
			policy + strings.Replace(insert, "FORWARD", "DOCKER-USER", 1)},
		"docker with a rule": {[]string{":FORWARD DROP [0:0]", ":DOCKER-USER - [0:0]", "-A FORWARD -j DOCKER-USER", "-A DOCKER-USER -s 10.0.0.0/8 -d 10.0.0.0/8 -m comment --comment \"a b\" -j ACCEPT", "-A DOCKER-USER -j RETURN"}, ""},
		"accepted":           {[]string{":FORWARD DROP [0:0]", "-A FORWARD -s 10.100.0.0/16 -j ACCEPT"}, ""},
		"a part is accepted": {[]string{":FORWARD DROP [0:0]", "-A FORWARD -s 10.100.0.0/16 -d 10.100.1.0/24 -j ACCEPT"}, policy + insert},
		"not accepted":       {[]string{":FORWARD DROP [0:0]", "-A FORWARD ! -s 10.100.0.0/16 -j ACCEPT", "-A FORWARD -i eth1 -j ACCEPT", "-A FORWARD -s 10.100.0.0/16 -p tcp -j ACCEPT"}, policy + insert},
		"reject": {[]string{":FORWARD ACCEPT [0:0]", "-A FORWARD -j REJECT --reject-with icmp-host-prohibited"},
			"iptables-nft: the rule -A FORWARD -j REJECT --reject-with icmp-host-prohibited drops packets of other hosts to 10.100.0.0/16" + insert},
		"reject in a chain": {[]string{":FORWARD ACCEPT [0:0]", ":deny - [0:0]", "-A FORWARD -j LOG", "-A FORWARD -g deny", "-A FORWARD -j ACCEPT", "-A deny -d 10.0.0.0/8 -j DROP"},
			"iptables-nft: the rule -A deny -d 10.0.0.0/8 -j DROP drops packets of other hosts to 10.100.0.0/16" + insert},
		"a chain returns":    {[]string{":FORWARD DROP [0:0]", ":a - [0:0]", "-A FORWARD -j a", "-A FORWARD -j ACCEPT", "-A a -j RETURN", "-A a -j DROP"}, ""},
		"goto does not":      {[]string{":FORWARD DROP [0:0]", ":a - [0:0]", "-A FORWARD -g a", "-A FORWARD -j ACCEPT", "-A a -j RETURN"}, policy + insert},
		"chains in a circle": {[]string{":FORWARD ACCEPT [0:0]", ":a - [0:0]", "-A FORWARD -j a", "-A a -j a"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := &Facts{rulesets: []*ruleset{parseIptables(cleanup.Listing{Program: "iptables-nft", Text: iptablesSave(test.lines...)})}}
			var want []string
			if test.want != "" {
				want = []string{test.want}
			}
			requireObstacles(t, f, "routed", want...)
		})
	}
}

// TestInterfaces: a rule for interfaces of the pool may accept its packets, and one for others does not.
func TestInterfaces(t *testing.T) {
	f := Facts{
		Underlay: Interface{Name: "eth0"}, Devices: map[string]Device{"p": {MTU: 1450, name: "vx-p"}},
		Addresses: []Address{{"pool0", netip.MustParsePrefix("10.100.0.1/16")}, {"eth1", netip.MustParsePrefix("192.0.2.1/24")}},
	}
	for rule, want := range map[string]bool{
		"-i pool0 -j ACCEPT":                true,
		"-i vx-+ -o pool0 -j ACCEPT":        true,
		"-i eth0 -j other":                  true,
		"-i docker0 -j ACCEPT":              false,
		"-i docker0 ! -o docker0 -j ACCEPT": false,
		"-i eth1 -o pool0 -j ACCEPT":        false,
		"-i pool0 -j DROP":                  false,
		"-i pool0 -p tcp -j ACCEPT":         false,
		"-s 10.9.0.0/16 -i pool0 -j ACCEPT": false,
	} {
		f.rulesets = []*ruleset{parseIptables(cleanup.Listing{Program: "iptables-nft", Text: iptablesSave(":FORWARD DROP [0:0]", "-A FORWARD "+rule)})}
		found := f.Obstacles([]*ipam.Config{pool(t, "auto")})
		if len(found) != 1 || found[0].IsWarning != want || strings.Contains(found[0].Problem, "unless a rule") != want {
			t.Errorf("%s: %+v, want a warning: %v", rule, found, want)
		}
	}
	for rules, want := range map[string]int{ // of obstacles, if all that packets come from is named
		"-i eth0 -j ACCEPT, -i vx-p -j ACCEPT, -i pool0 -j ACCEPT":  0,
		"-i eth0 -j ACCEPT, -i vx-p -j ACCEPT, -i pool+ -j ours":    0,
		"-i eth0 -j ACCEPT, -i vx-p -j ACCEPT, -i pool0 -j DROP":    1,
		"-i eth0 -j ACCEPT, -i vx-p -j ACCEPT, -o pool0 -j ACCEPT":  1,
		"-i eth0 -j ACCEPT, -i vx-p -j ACCEPT, -i docker0 -j other": 1,
	} {
		lines := []string{":FORWARD DROP [0:0]", ":ours - [0:0]", "-A ours -j ACCEPT"}
		for rule := range strings.SplitSeq(rules, ", ") {
			lines = append(lines, "-A FORWARD "+rule)
		}
		f.rulesets = []*ruleset{parseIptables(cleanup.Listing{Program: "iptables-nft", Text: iptablesSave(lines...)})}
		if found := f.Obstacles([]*ipam.Config{pool(t, "auto")}); len(found) != want {
			t.Errorf("%s: %+v, want %d", rules, found, want)
		}
	}
	match := `{"match": {"op": "==", "left": {"meta": {"key": "iifname"}}, "right": "pool*"}}, {"accept": null}`
	s, err := parseNftables(table{"inet", "fw"}, []byte(nftables("drop", nftRuleOf("fwd", match))))
	if err != nil {
		t.Fatal(err)
	}
	f.rulesets = []*ruleset{s}
	if found := f.Obstacles([]*ipam.Config{pool(t, "vxlan")}); len(found) != 2 || !found[0].IsWarning || !found[1].IsWarning {
		t.Errorf("nftables: %+v, want two warnings", found)
	}
}

// TestIP6tables: rules for IPv6 are about the IPv6 subnet.
func TestIP6tables(t *testing.T) {
	f := &Facts{rulesets: []*ruleset{parseIptables(cleanup.Listing{Program: "ip6tables-legacy", IPv6: true, Text: iptablesSave(":FORWARD DROP [0:0]")})}}
	requireObstacles(t, f, "vxlan", "ip6tables-legacy: the policy of the chain FORWARD drops packets of other hosts to fd00:100::/64 => ip6tables-legacy -I FORWARD -s fd00:100::/64 -d fd00:100::/64 -j ACCEPT")
}

// nftables is the listing of a table with a chain of forwarded packets and one more.
func nftables(policy, rules string) string {
	return `{"nftables": [{"metainfo": {}}, {"table": {"family": "inet", "name": "fw"}},
		{"chain": {"family": "inet", "table": "fw", "name": "fwd", "type": "filter", "hook": "forward", "prio": 0, "policy": "` + policy + `"}},
		{"chain": {"family": "inet", "table": "fw", "name": "other"}}` + rules + `]}`
}

func nftRuleOf(chain, expr string) string {
	return `, {"rule": {"family": "inet", "table": "fw", "chain": "` + chain + `", "expr": [` + expr + `]}}`
}

func TestNftables(t *testing.T) {
	const (
		fix4     = " => nft insert rule inet fw fwd ip saddr 10.100.0.0/16 ip daddr 10.100.0.0/16 accept"
		fix6     = " => nft insert rule inet fw fwd ip6 saddr fd00:100::/64 ip6 daddr fd00:100::/64 accept"
		policy4  = "nft table inet fw: the policy of the chain fwd drops packets of other hosts to 10.100.0.0/16" + fix4
		policy6  = "nft table inet fw: the policy of the chain fwd drops packets of other hosts to fd00:100::/64" + fix6
		rejects4 = "nft table inet fw: a rule of the chain other drops packets of other hosts to 10.100.0.0/16" + fix4
		rejects6 = "nft table inet fw: a rule of the chain other drops packets of other hosts to fd00:100::/64" + fix6
		unless   = ", unless a rule for some of them accepts them =>"
		source4  = `{"match": {"op": "==", "left": {"payload": {"protocol": "ip", "field": "saddr"}}, "right": {"prefix": {"addr": "10.0.0.0", "len": 8}}}}`
		set6     = `{"match": {"op": "==", "left": {"payload": {"protocol": "ip6", "field": "daddr"}}, "right": {"set": ["fd00::1", {"prefix": {"addr": "fd00:100::", "len": 56}}]}}}`
		named    = `{"match": {"op": "==", "left": {"payload": {"protocol": "ip", "field": "saddr"}}, "right": "@set"}}`
		iface    = `{"match": {"op": "==", "left": {"meta": {"key": "iifname"}}, "right": "eth0"}}`
	)
	for name, test := range map[string]struct {
		policy, rules string
		want          []string
	}{
		"accept":            {"accept", "", nil},
		"drop":              {"drop", "", []string{policy4, policy6}},
		"accepted by IPv4":  {"drop", nftRuleOf("fwd", source4+`, {"counter": {}}, {"accept": null}`), []string{policy6}},
		"accepted by a set": {"drop", nftRuleOf("fwd", set6+`, {"accept": null}`), []string{policy4}},
		"conditions":        {"drop", nftRuleOf("fwd", iface+`, {"accept": null}`) + nftRuleOf("fwd", named+`, {"accept": null}`), []string{strings.Replace(policy4, " =>", unless, 1), policy6}},
		"a chain rejects":   {"accept", nftRuleOf("fwd", `{"jump": {"target": "other"}}`) + nftRuleOf("other", `{"reject": {"type": "icmpx"}}`), []string{rejects4, rejects6}},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := parseNftables(table{"inet", "fw"}, []byte(nftables(test.policy, test.rules)))
			if err != nil {
				t.Fatal(err)
			}
			requireObstacles(t, &Facts{rulesets: []*ruleset{s}}, "routed", test.want...)
		})
	}
}

// TestForwardTables: each table of forwarded packets is read once, by one program.
func TestForwardTables(t *testing.T) {
	chain := func(family, table, hook string) string {
		return `{"chain": {"family": "` + family + `", "table": "` + table + `", "name": "c", "hook": "` + hook + `"}}`
	}
	list := `{"nftables": [{"metainfo": {}}, ` + strings.Join([]string{
		chain("ip", "filter", "forward"), chain("inet", "fw", "forward"), chain("inet", "fw", "forward"), chain("inet", "in", "input"),
		chain("inet", "allocnet-isolation", "forward"), chain("bridge", "b", "forward"), chain("inet", "filter", "forward"),
	}, ", ") + `]}`
	for listed, want := range map[string][]table{
		"ip": {{"inet", "fw"}, {"bridge", "b"}, {"inet", "filter"}}, "ip6": {{"ip", "filter"}, {"inet", "fw"}, {"bridge", "b"}, {"inet", "filter"}},
	} {
		got, err := tablesWith([]byte(list), []string{Forward}, map[string]bool{listed: true})
		if err != nil || cmp.Diff(want, got, cmp.AllowUnexported(table{})) != "" {
			t.Errorf("with iptables of %s: %v, %v, want %v", listed, got, err, want)
		}
	}
}

// zonesText is what firewall-cmd --list-all-zones prints.
const zonesText = `public (active)
  target: default
  interfaces: eth0
  sources: 10.100.0.0/16

trusted%s
  target: ACCEPT
  icmp-block-inversion: no
  interfaces: 
  sources: %s
  services: 
`

func TestFirewalld(t *testing.T) {
	for sources, want := range map[string][]string{
		"":                            {"10.100.0.0/16", "fd00:100::/64"},
		"10.100.0.0/17":               {"10.100.0.0/16", "fd00:100::/64"},
		"10.0.0.0/8 ipset:x":          {"fd00:100::/64"},
		"fd00:100::/56 10.100.0.0/16": nil,
	} {
		var problems []string
		for _, subnet := range want {
			problems = append(problems, "firewalld: has "+subnet+" in no zone that accepts everything: packets of other hosts to it are rejected => "+
				"firewall-cmd --permanent --zone=trusted --add-source="+subnet+" && firewall-cmd --reload")
		}
		text := strings.NewReplacer("%s\n  target", " (active)\n  target", "sources: %s", "sources: "+sources).Replace(zonesText)
		requireObstacles(t, &Facts{zones: parseZones(text)}, "routed", problems...)
	}
}

// TestVXLANMTU: that of the device, else what the underlay leaves.
func TestVXLANMTU(t *testing.T) {
	for name, test := range map[string]struct {
		facts Facts
		mode  string
		want  int
	}{
		"the device":      {Facts{Devices: map[string]Device{"p": {MTU: 8950, name: "vx-p"}}, Underlay: Interface{Name: "eth0", MTU: 1500}}, "vxlan", 8950},
		"IPv4":            {Facts{Underlay: Interface{Name: "eth0", MTU: 1500}}, "auto", 1450},
		"IPv6":            {Facts{Underlay: Interface{Name: "eth0", MTU: 1500, IsIPv6: true}}, "auto", 1430},
		"unknown":         {Facts{}, "vxlan", 0},
		"no VXLAN at all": {Facts{Underlay: Interface{Name: "eth0", MTU: 1500}}, "routed", 0},
	} {
		if got := test.facts.VXLANMTU(pool(t, test.mode)); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
}
