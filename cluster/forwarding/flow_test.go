// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package forwarding

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/cleanup"
	"github.com/allocnet/allocnet/internal/roottest"
)

// webFlow is one from web0 by up0, to port 443 of TCP.
func webFlow() Flow {
	return Flow{
		Hook: Forward, From: netip.MustParseAddr("10.88.0.2"), To: netip.MustParseAddr("198.51.100.7"),
		FromLink: "web0", ToLink: "up0", Protocol: "tcp", Port: 443,
	}
}

// fateText is what becomes of a flow: pass, drop or doubt.
func fateText(f Fate) string {
	switch {
	case len(f.Drops) > 0:
		return "drop"
	case len(f.Doubts) > 0:
		return "doubt"
	}
	return "pass"
}

// flowForms are conditions of iptables, and whether the flow meets them.
var flowForms = []form{
	{"", yes},
	{"-i web0 -o up0", yes}, {"-o up+", yes}, {"! -i bad0", yes}, {"-i up0", no}, {"-o web0", no},
	{"-s 10.88.0.2/32", yes}, {"-s 10.88.0.3/32", no}, {"-d 198.51.100.0/24", yes}, {"! -d 198.51.100.0/24", no},
	{"-p tcp", yes}, {"-p udp", no}, {"! -p tcp", no}, {"! -p icmp", yes}, {"-p all", yes}, {"-p 254", unknown},
	{"-p tcp -m tcp --dport 443", yes}, {"-p tcp -m tcp --dport 80", no}, {"-p tcp -m tcp ! --dport 80", yes},
	{"-p tcp -m tcp --dport 400:500", yes}, {"-p tcp -m tcp --dport 444:500", no}, {"-p udp -m udp --dport 443", no},
	{"-p tcp -m multiport --dports 22,443", yes}, {"-p tcp -m multiport --dports 22,80:90", no},
	{"-p tcp -m tcp --sport 1024:65535", unknown}, {"-p tcp -m tcp --tcp-flags SYN SYN", unknown}, {"-p udp -m udp --sport 53", no},
	{"-p icmp -m icmp --icmp-type 8", no},
	{"-m conntrack --ctstate NEW", yes}, {"-m conntrack --ctstate RELATED,ESTABLISHED", no}, {"-m conntrack --ctstate DNAT", no},
	{"-m set --match-set x src", unknown}, {"-m mark --mark 0x1", unknown}, {"-i bad0 -m mark --mark 0x1", no},
	{"-m comment --comment \"a b\"", yes},
}

// TestFlowForms: each condition, with each verdict and policy.
func TestFlowForms(t *testing.T) {
	for _, f := range flowForms {
		for _, test := range []struct {
			verdict, policy string
			want            map[answer]string
		}{
			{"ACCEPT", "DROP", map[answer]string{yes: "pass", no: "drop", unknown: "doubt"}},
			{"DROP", "ACCEPT", map[answer]string{yes: "drop", no: "pass", unknown: "doubt"}},
			{"ACCEPT", "ACCEPT", map[answer]string{yes: "pass", no: "pass", unknown: "pass"}},
			{"REJECT", "DROP", map[answer]string{yes: "drop", no: "drop", unknown: "drop"}},
			{"other", "ACCEPT", map[answer]string{yes: "drop", no: "pass", unknown: "doubt"}},
			{"NFQUEUE", "ACCEPT", map[answer]string{yes: "doubt", no: "pass", unknown: "doubt"}},
		} {
			rule := strings.Join(strings.Fields("-A FORWARD "+f.text+" -j "+test.verdict), " ")
			text := iptablesSave(":FORWARD "+test.policy+" [0:0]", ":other - [0:0]", "-A other -j DROP", rule)
			facts := &Facts{rulesets: []*ruleset{parseIptables(cleanup.Listing{Program: "iptables-nft", Text: text})}}
			if got := facts.FateOf(webFlow()); fateText(got) != test.want[f.want] {
				t.Errorf("%s, policy %s: %+v, want %s", rule, test.policy, got, test.want[f.want])
			}
		}
	}
}

// TestFlowNftForms: the same of nftables, whose listing has numbers, ranges and types.
func TestFlowNftForms(t *testing.T) {
	ping := webFlow()
	ping.Protocol, ping.Port = "icmp", 0
	ping6 := ping
	ping6.From, ping6.To = netip.MustParseAddr("fd88::2"), netip.MustParseAddr("2001:db8::7")
	dport := header("tcp", "dport")
	for _, test := range []struct {
		flow Flow
		text string
		want string
	}{
		{webFlow(), is(dport, "==", `443`), "pass"},
		{webFlow(), is(dport, "==", `80`), "drop"},
		{webFlow(), is(dport, "!=", `80`), "pass"},
		{webFlow(), is(dport, "==", `{"set": [22, {"range": [400, 500]}]}`), "pass"},
		{webFlow(), is(dport, "==", `{"range": [1, 442]}`), "drop"},
		{webFlow(), is(dport, "==", `"@ports"`), "doubt"},
		{webFlow(), is(header("udp", "dport"), "==", `443`), "drop"},
		{webFlow(), is(header("th", "dport"), "==", `443`), "pass"},
		{webFlow(), is(key("meta", "l4proto"), "==", `{"set": ["icmp", "tcp"]}`), "pass"},
		{webFlow(), is(key("meta", "nfproto"), "==", `"ipv4"`), "pass"},
		{webFlow(), is(key("meta", "nfproto"), "==", `"ipv6"`), "drop"},
		{webFlow(), is(header("icmp", "type"), "==", `"echo-request"`), "drop"},
		{webFlow(), is(header("ip6", "saddr"), "==", `"fd88::2"`), "drop"},
		{ping, is(header("icmp", "type"), "==", `"echo-request"`), "pass"},
		{ping, is(header("icmp", "type"), "==", `{"set": ["destination-unreachable", "echo-request"]}`), "pass"},
		{ping, is(header("icmp", "type"), "==", `"echo-reply"`), "drop"},
		{ping, is(header("icmpv6", "type"), "==", `"echo-request"`), "drop"},
		{ping, is(header("th", "dport"), "==", `443`), "drop"},
		{ping6, is(header("icmpv6", "type"), "==", `"echo-request"`), "pass"},
		{ping6, is(key("meta", "l4proto"), "==", `"ipv6-icmp"`), "pass"},
		{ping6, is(header("ip6", "saddr"), "==", `"fd88::2"`), "pass"},
	} {
		f := mustParse(t, "inet", nftWorld("inet", test.text+`, {"accept": null}`, world{"", "drop", "accept"}))
		if got := f.FateOf(test.flow); fateText(got) != test.want {
			t.Errorf("%s of %s: %+v, want %s", test.text, test.flow.Protocol, got, test.want)
		}
	}
}

// TestFlowICMPCodes: a type of iptables may have a code, which an echo request has as 0.
func TestFlowICMPCodes(t *testing.T) {
	ping := webFlow()
	ping.Protocol, ping.Port = "icmp", 0
	for kind, want := range map[string]string{"8": "drop", "8/0": "drop", "8/1": "pass", "0/0": "pass", "any": "drop"} {
		text := iptablesSave(":FORWARD ACCEPT [0:0]", "-A FORWARD -p icmp -m icmp --icmp-type "+kind+" -j DROP")
		facts := &Facts{rulesets: []*ruleset{parseIptables(cleanup.Listing{Program: "iptables-nft", Text: text})}}
		if got := facts.FateOf(ping); fateText(got) != want {
			t.Errorf("%s: %+v, want %s", kind, got, want)
		}
	}
}

// TestFlowHooks: a flow is seen by the chains of its hook and family alone, and of prerouting if it comes to the host, and each of them may drop it.
func TestFlowHooks(t *testing.T) {
	chain := func(name, hook, kind, policy string) string {
		return fmt.Sprintf(`{"chain": {"family": "inet", "table": "fw", "name": %q, "type": %q, "hook": %q, "policy": %q}}`, name, kind, hook, policy)
	}
	for hook, want := range map[string]string{
		Forward: "the policy of the chain pre (nft table inet fw); the policy of the chain fwd (nft table inet fw)", Input: "the policy of the chain pre (nft table inet fw)", Output: "the policy of the chain out2 (nft table inet fw)",
	} {
		text := `{"nftables": [` + strings.Join([]string{
			chain("fwd", "forward", "filter", "drop"), chain("in", "input", "filter", "accept"), chain("nat", "input", "nat", "drop"),
			chain("out", "output", "filter", "accept"), chain("out2", "output", "route", "drop"), chain("pre", "prerouting", "filter", "drop"),
		}, ", ") + `]}`
		f := mustParse(t, "inet", text)
		flow := webFlow()
		flow.Hook = hook
		if got := f.FateOf(flow); strings.Join(got.Drops, "; ") != want || len(got.Doubts) > 0 {
			t.Errorf("%s: %+v, want %q", hook, got, want)
		}
	}
	own := webFlow()
	own.Hook, own.FromLink, own.ToLink = Input, "lo", ""
	for condition, want := range map[string]string{"": "drop", `{"match": {"op": "==", "left": {"meta": {"key": "oifname"}}, "right": "lo"}}, `: "drop", `{"match": {"op": "==", "left": {"meta": {"key": "oifname"}}, "right": "up0"}}, `: "pass"} {
		text := `{"nftables": [` + chain("out", "output", "filter", "accept") + `, {"rule": {"chain": "out", "expr": [` + condition + `{"drop": null}]}}]}`
		if got := mustParse(t, "inet", text).FateOf(own); fateText(got) != want {
			t.Errorf("from the host to itself, %s: %+v, want %s", condition, got, want)
		}
	}
	f := &Facts{rulesets: []*ruleset{parseIptables(cleanup.Listing{Program: "ip6tables-nft", IPv6: true, Text: iptablesSave(":FORWARD DROP [0:0]")})}}
	if got := f.FateOf(webFlow()); fateText(got) != "pass" {
		t.Errorf("IPv4 through rules of IPv6: %+v", got)
	}
	flow := webFlow()
	flow.Hook = Input
	f = &Facts{rulesets: []*ruleset{parseIptables(cleanup.Listing{Program: "iptables-nft", Text: "*filter\n:INPUT DROP [0:0]\n-A INPUT -i lo -j ACCEPT\n-A INPUT -p tcp -m tcp --dport 22 -j ACCEPT\nCOMMIT\n"})}}
	if got := f.FateOf(flow); strings.Join(got.Drops, "") != "the policy of the chain INPUT (iptables-nft)" {
		t.Errorf("to the host: %+v", got)
	}
	flow.Port = 22
	if got := f.FateOf(flow); fateText(got) != "pass" {
		t.Errorf("to an open port of the host: %+v", got)
	}
}

// TestFlowOtherTables: the tables of iptables beside filter have chains for what the host forwards, too, and few rules that drop.
func TestFlowOtherTables(t *testing.T) {
	for text, want := range map[string]string{
		"*mangle\n:FORWARD ACCEPT [0:0]\n-A FORWARD -d 198.51.100.0/24 -j DROP\nCOMMIT\n":                                          "drop",
		"*mangle\n:FORWARD DROP [0:0]\nCOMMIT\n":                                                                                   "drop",
		"*security\n:FORWARD ACCEPT [0:0]\n-A FORWARD -m mark --mark 0x1 -j DROP\nCOMMIT\n":                                        "doubt",
		"*mangle\n:FORWARD ACCEPT [0:0]\n-A FORWARD -p tcp -m tcp --tcp-flags SYN,RST SYN -j TCPMSS --clamp-mss-to-pmtu\nCOMMIT\n": "pass",
		"*raw\n:OUTPUT DROP [0:0]\nCOMMIT\n":                                                                                       "pass",
		"*filter\n:FORWARD ACCEPT [0:0]\nCOMMIT\n":                                                                                 "pass",
		"# Table `mangle' is incompatible, use 'nft' tool.\n":                                                                      "doubt",
	} {
		f := &Facts{}
		f.addOtherTables(cleanup.Listing{Program: "iptables-nft", Text: text})
		if got := f.FateOf(webFlow()); fateText(got) != want {
			t.Errorf("%s: %+v, want %s", text, got, want)
		}
	}
}

// arrivingForms are rules of prerouting, each with the priority of its chain, and what becomes of a flow, and of one to port 8443 of 192.0.2.1 that is
// published as it.
var arrivingForms = []struct {
	priority        int
	rule            string
	want, published string
}{
	{-300, `{"drop": null}`, "drop", "drop"},
	{-300, is(key("meta", "iifname"), "==", `"up0"`) + `, {"drop": null}`, "pass", "pass"},
	{-300, is(key("meta", "oifname"), "==", `"up0"`) + `, {"drop": null}`, "pass", "pass"},
	{-300, is(header("ip", "daddr"), "==", `"198.51.100.7"`) + `, {"drop": null}`, "drop", "pass"},
	{-100, is(header("ip", "daddr"), "==", `"198.51.100.7"`) + `, {"drop": null}`, "drop", "pass"},
	{-99, is(header("ip", "daddr"), "==", `"198.51.100.7"`) + `, {"drop": null}`, "drop", "drop"},
	{-150, is(header("ip", "daddr"), "==", `"192.0.2.1"`) + `, {"drop": null}`, "pass", "drop"},
	{10, is(header("ip", "daddr"), "==", `"192.0.2.1"`) + `, {"drop": null}`, "pass", "pass"},
	{-150, is(header("tcp", "dport"), "==", `8443`) + `, {"drop": null}`, "pass", "drop"},
	{-150, is(header("tcp", "dport"), "==", `443`) + `, {"drop": null}`, "drop", "pass"},
	{-150, is(key("ct", "status"), "in", `"dnat"`) + `, {"drop": null}`, "pass", "pass"},
	{0, is(key("ct", "status"), "in", `"dnat"`) + `, {"drop": null}`, "pass", "drop"},
	{-300, is(key("ct", "state"), "in", `"new"`) + `, {"drop": null}`, "doubt", "doubt"},
	{-150, is(key("ct", "state"), "in", `"new"`) + `, {"drop": null}`, "drop", "drop"},
	{-300, is(`{"fib": {"result": "oif", "flags": ["saddr", "mark", "iif"]}}`, "==", `false`) + `, {"drop": null}`, "pass", "pass"},
	{-300, is(`{"fib": {"result": "oif", "flags": ["saddr", "iif"]}}`, "==", `true`) + `, {"drop": null}`, "drop", "drop"},
	{-300, is(`{"fib": {"result": "oif", "flags": ["saddr", "iif"]}}`, "!=", `true`) + `, {"drop": null}`, "pass", "pass"},
	{-300, is(`{"fib": {"result": "oif", "flags": ["daddr"]}}`, "==", `false`) + `, {"drop": null}`, "doubt", "doubt"},
	{-300, is(`{"fib": {"result": "oif", "flags": ["saddr", "iif"]}}`, "==", `"up0"`) + `, {"drop": null}`, "doubt", "doubt"},
}

// TestFlowArrives: what drops a flow before the host forwards it, or gets it, is told, as it sees the packet: before connections are tracked and
// destinations translated, or after that. What the host sends does not come by there.
func TestFlowArrives(t *testing.T) {
	for _, test := range arrivingForms {
		text := fmt.Sprintf(`{"nftables": [{"chain": {"family": "inet", "table": "fw", "name": "pre", "type": "filter", "hook": "prerouting", "prio": %d, "policy": "accept"}},
			{"rule": {"chain": "pre", "expr": [%s]}}]}`, test.priority, test.rule)
		f := mustParse(t, "inet", text)
		published := webFlow()
		published.IsPublished, published.Asked = true, netip.MustParseAddrPort("192.0.2.1:8443")
		for _, hook := range []string{Forward, Input, Output} {
			flow, port, want, wantPort := webFlow(), published, test.want, test.published
			if flow.Hook, port.Hook = hook, hook; hook == Output {
				want, wantPort = "pass", "pass"
			}
			if got, gotPort := f.FateOf(flow), f.FateOf(port); fateText(got) != want || fateText(gotPort) != wantPort {
				t.Errorf("%s at %d, %s: %+v and %+v, want %s and %s", test.rule, test.priority, hook, got, gotPort, want, wantPort)
			}
		}
	}
}

// TestFlowToAnyOwnAddress: of a published port whose address is not known a rule about one may hold, but for loopback; an interface that is not known
// may not be that of the route.
func TestFlowToAnyOwnAddress(t *testing.T) {
	for text, want := range map[string]string{
		"*raw\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING -d 192.0.2.1/32 -j DROP\nCOMMIT\n":                                      "doubt",
		"*raw\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING -d 127.0.0.0/8 -j DROP\nCOMMIT\n":                                       "pass",
		"*mangle\n:PREROUTING DROP [0:0]\nCOMMIT\n":                                                                            "drop",
		"*raw\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING -m rpfilter --loose --validmark --invert -j DROP\nCOMMIT\n":             "doubt",
		"*raw\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING -d 172.17.0.2/32 ! -i docker0 -j DROP\n-A PREROUTING -j DROP\nCOMMIT\n": "drop",
		"*raw\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING -m rpfilter -j ACCEPT\n-A PREROUTING -j DROP\nCOMMIT\n":                 "doubt",
	} {
		f := &Facts{}
		f.addOtherTables(cleanup.Listing{Program: "iptables-nft", Text: text})
		flow := webFlow()
		flow.IsPublished, flow.Asked, flow.FromLink = true, netip.AddrPortFrom(netip.Addr{}, 8443), ""
		if got := f.FateOf(flow); fateText(got) != want {
			t.Errorf("%s: %+v, want %s", text, got, want)
		}
		if flow.FromLink = "web0"; want == "doubt" && strings.Contains(text, "rpfilter") {
			want = "pass"
		}
		if got := f.FateOf(flow); fateText(got) != want {
			t.Errorf("%s, by a known interface: %+v, want %s", text, got, want)
		}
	}
}

// TestFlowUnknown: of what is not known of a flow, or of the rules, nothing is claimed.
func TestFlowUnknown(t *testing.T) {
	listing := func(rules ...string) *Facts {
		return &Facts{rulesets: []*ruleset{parseIptables(cleanup.Listing{Program: "iptables-nft", Text: iptablesSave(append([]string{":FORWARD DROP [0:0]"}, rules...)...)})}}
	}
	noLinks := webFlow()
	noLinks.FromLink, noLinks.ToLink = "", ""
	if got := listing("-A FORWARD -i eth7 -j ACCEPT").FateOf(noLinks); fateText(got) != "doubt" {
		t.Errorf("an interface that is not known: %+v", got)
	}
	noAddress := webFlow()
	noAddress.From = netip.Addr{}
	if got := listing("-A FORWARD -s 10.0.0.0/8 -j ACCEPT").FateOf(noAddress); fateText(got) != "doubt" {
		t.Errorf("an address that is not known: %+v", got)
	}
	unread := &Facts{Unread: []error{errors.New("nft: permission denied")}}
	if got := unread.FateOf(webFlow()); strings.Join(got.Doubts, "") != "nft: permission denied" {
		t.Errorf("rules that are not read: %+v", got)
	}
	docker := listing("-A FORWARD -j DOCKER-FORWARD", "-A DOCKER-FORWARD -m set --match-set docker-ext-bridges-v4 dst -j ACCEPT", ":DOCKER-FORWARD - [0:0]")
	if got := docker.FateOf(webFlow()); fateText(got) != "drop" {
		t.Errorf("a chain of Docker for its own networks: %+v", got)
	}
}

// TestFlowOnBridge: what a bridge forwards by itself is not seen by rules of IP.
func TestFlowOnBridge(t *testing.T) {
	f := &Facts{rulesets: []*ruleset{parseIptables(cleanup.Listing{Program: "iptables-nft", Text: iptablesSave(":FORWARD DROP [0:0]")})}}
	flow := webFlow()
	flow.Bridge = "no-such-bridge"
	want := "pass"
	if isFiltered(flow.Bridge, false) {
		want = "drop"
	}
	if got := f.FateOf(flow); fateText(got) != want {
		t.Errorf("%+v, want %s", got, want)
	}
	f = &Facts{bridgeTables: []bridgeTable{{name: "b", forwards: true}}}
	if got := f.FateOf(flow); fateText(got) != "doubt" {
		t.Errorf("a table of bridges: %+v", got)
	}
	f = &Facts{bridgeTables: []bridgeTable{parseBridges(table{bridgeFamily, "b"}, []byte(`{"nftables": [{"chain": {"name": "c", "hook": "prerouting"}}]}`))}}
	if got := f.FateOf(flow); fateText(got) != "pass" {
		t.Errorf("a table of what comes to bridges, of which none is named so: %+v", got)
	}
}

// firewalld are rules as firewalld has them with its backend nftables.
const firewalldRules = `table inet firewalld {
	chain filter_FORWARD {
		type filter hook forward priority filter + 10; policy accept;
		ct state { established, related } accept
		ct status dnat accept
		iifname "lo" accept
		ct state invalid drop
		jump filter_FORWARD_POLICIES
		reject with icmpx admin-prohibited
	}
	chain filter_FORWARD_POLICIES {
		iifname "web0" oifname "web0" jump filter_FWD_public
		iifname "web0" jump filter_FWD_public
		ip saddr 10.99.0.0/24 jump filter_FWD_trusted
		return
	}
	chain filter_FWD_public {
		oifname "web0" accept
	}
	chain filter_FWD_trusted {
		accept
	}
}
`

// arriving are rules as firewalld has them for what comes to the host.
const arriving = `table inet arriving {
	chain pre {
		type filter hook prerouting priority filter + 10; policy accept;
		icmpv6 type { nd-router-advert, nd-neighbor-solicit } accept
		fib saddr . mark . iif oif missing drop
	}
}
`

// TestRootFates: what the kernel has is followed, with each closing of each rule system, and firewalld's rules.
func TestRootFates(t *testing.T) {
	roottest.Require(t)
	for _, program := range []string{"iptables-nft", "iptables-legacy"} {
		for name, c := range closings {
			if strings.Contains(c.close, "nft ") && program == "iptables-legacy" {
				continue
			}
			replace := strings.NewReplacer("IPT", program, "FAMILY", "inet")
			run(t, replace.Replace(c.close))
			if got := CollectFilters(t.Context()).FateOf(webFlow()); fateText(got) != "drop" {
				t.Errorf("%s, %s: %+v, want a drop", program, name, got)
			}
			run(t, replace.Replace(c.open))
			if got := CollectFilters(t.Context()).FateOf(webFlow()); fateText(got) != "pass" {
				t.Errorf("%s, %s, open again: %+v", program, name, got)
			}
		}
	}
	run(t, "iptables-nft -t mangle -A FORWARD -d 198.51.100.7 -j DROP")
	if got := CollectFilters(t.Context()).FateOf(webFlow()); len(got.Drops) != 1 || !strings.HasSuffix(got.Drops[0], "(iptables-nft -t mangle)") {
		t.Errorf("the table mangle: %+v", got)
	}
	run(t, "iptables-nft -t mangle -F")
	for rule, name := range map[string]string{
		"iptables-nft -t raw IT PREROUTING -i web0 -j DROP": "(iptables-nft -t raw)", "iptables-legacy -t mangle IT PREROUTING -d 198.51.100.7 -j DROP": "(iptables-legacy -t mangle)",
	} {
		run(t, strings.Replace(rule, "IT", "-A", 1))
		if got := CollectFilters(t.Context()).FateOf(webFlow()); len(got.Drops) != 1 || !strings.HasSuffix(got.Drops[0], name) {
			t.Errorf("%s: %+v", rule, got)
		}
		run(t, strings.Replace(rule, "IT", "-D", 1))
	}
	run(t, "nft -f - <<'END'\n"+arriving+"END")
	if got := CollectFilters(t.Context()).FateOf(webFlow()); fateText(got) != "pass" {
		t.Errorf("only what comes by another interface than that of its route is dropped: %+v", got)
	}
	run(t, "nft add rule inet arriving pre tcp dport 443 drop")
	if got := CollectFilters(t.Context()).FateOf(webFlow()); len(got.Drops) != 1 || got.Drops[0] != "a rule of the chain pre (nft table inet arriving)" {
		t.Errorf("dropped in prerouting: %+v", got)
	}
	run(t, "nft delete table inet arriving")
	run(t, "nft -f - <<'END'\n"+firewalldRules+"END")
	defer run(t, "nft delete table inet firewalld")
	within := webFlow()
	within.ToLink = "web0"
	trusted := webFlow()
	trusted.From, trusted.FromLink = netip.MustParseAddr("10.99.0.7"), "web9"
	published := webFlow()
	published.IsPublished = true
	for text, test := range map[string]struct {
		flow Flow
		want string
	}{"to another zone": {webFlow(), "drop"}, "within one": {within, "pass"}, "trusted": {trusted, "pass"}, "published": {published, "pass"}} {
		got := CollectFilters(t.Context()).FateOf(test.flow)
		if fateText(got) != test.want || test.want == "drop" && got.Drops[0] != "a rule of the chain filter_FORWARD (nft table inet firewalld)" {
			t.Errorf("firewalld, %s: %+v, want %s", text, got, test.want)
		}
	}
}
