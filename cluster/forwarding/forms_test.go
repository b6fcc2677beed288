// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package forwarding

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/cleanup"
)

// webSubnets are those of the network that the forms are about, whose packets come from web0 and are sent by up0.
var webSubnets = map[string]netip.Prefix{"ip": netip.MustParsePrefix("10.88.0.0/24"), "ip6": netip.MustParsePrefix("fd88::/64")}

// form is one of a condition, as a program lists it, and whether it may be met by a packet that an allocation of web0
// sends elsewhere by TCP or UDP, or is met by all of them.
type form struct {
	text string
	want answer
}

// iptablesForms are conditions of iptables.
var iptablesForms = []form{
	{"", yes},
	{"-i web0", yes},
	{"-i web+", yes},
	{"-i +", yes},
	{"! -i bad0", yes},
	{"-s 10.88.0.0/16", yes},
	{"! -d 10.88.0.0/24", yes},
	{"-p all", unknown},
	{"! -p icmp", yes},
	{"-m conntrack --ctstate NEW", yes},
	{"-m conntrack --ctstate NEW,RELATED,ESTABLISHED", yes},
	{"-m conntrack ! --ctstate INVALID", yes},
	{"-i web0 -m comment --comment \"a b\"", yes},
	{"-m set --match-set x src", unknown},
	{"-m set ! --match-set x dst", unknown},
	{"-m mark --mark 0x1", unknown},
	{"-m connmark --mark 0x1/0xf", unknown},
	{"-m iprange --src-range 10.88.0.0-10.88.0.255", unknown},
	{"-m physdev --physdev-is-bridged", unknown},
	{"-m addrtype ! --dst-type LOCAL", unknown},
	{"-m conntrack --ctorigsrc 10.88.0.0/24", unknown},
	{"-i web0 -m limit --limit 1/sec", unknown},
	{"-m conntrack --ctstate UNTRACKED", unknown},
	{"-i web0 -o up0", partly},
	{"-o up+", partly},
	{"-i web0 ! -o web0", yes},
	{"-o web0", no},
	{"-s 10.88.0.128/25", partly},
	{"! -s 10.88.0.7/32", partly},
	{"-d 198.51.100.0/24", partly},
	{"! -d 198.51.100.0/24", partly},
	{"-p tcp -m tcp --dport 443", partly},
	{"-p udp -m multiport --dports 53,123", partly},
	{"! -p tcp", partly},
	{"-i bad0", no},
	{"-i bad+", no},
	{"! -i web0", no},
	{"-i bad0 -m set --match-set x src", no},
	{"-s 10.89.0.0/24", no},
	{"! -s 10.88.0.0/16", no},
	{"-d 10.88.0.0/24", no},
	{"-p icmp -m icmp --icmp-type 8", no},
	{"-m conntrack --ctstate RELATED,ESTABLISHED", no},
	{"-m conntrack ! --ctstate NEW", no},
	{"-m state --state ESTABLISHED", no},
	{"-m conntrack --ctstate DNAT", no},
}

// TestIptablesForms: each condition, with each verdict.
func TestIptablesForms(t *testing.T) {
	for _, f := range iptablesForms {
		requireForm(t, "iptables "+f.text, f.want, func(w world) *Facts {
			lines := []string{"*filter", ":FORWARD " + strings.ToUpper(w.policy) + " [0:0]", ":A - [0:0]", ":B - [0:0]"}
			verdict := map[string]string{"accept": "-j ACCEPT", "drop": "-j DROP", "return": "-j RETURN", "jump": "-j B", "goto": "-g B"}[w.verdict]
			lines = append(lines, "-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT", "-A FORWARD -j A",
				strings.Join(strings.Fields("-A A "+f.text+" "+verdict), " "), "-A B -j ACCEPT", "-A A -j "+strings.ToUpper(w.then), "COMMIT")
			return &Facts{rulesets: []*ruleset{parseIptables(cleanup.Listing{Program: "iptables-nft", Text: strings.Join(lines, "\n")})}}
		})
	}
}

// world is what is around a form: a chain leads to another one, which has the form with a verdict, and then another verdict.
type world struct{ verdict, then, policy string }

// requireForm compares what is said of a form in each world with what its answer means.
func requireForm(t *testing.T, name string, form answer, facts func(world) *Facts) {
	t.Helper()
	for w, want := range map[world]func(answer) bool{
		{"accept", "drop", "drop"}:     func(a answer) bool { return a == no },
		{"accept", "return", "drop"}:   func(a answer) bool { return a == no },
		{"jump", "drop", "drop"}:       func(a answer) bool { return a == no },
		{"goto", "return", "drop"}:     func(a answer) bool { return a == no },
		{"return", "drop", "accept"}:   func(a answer) bool { return a == no },
		{"return", "accept", "drop"}:   func(a answer) bool { return a == yes },
		{"drop", "return", "accept"}:   func(a answer) bool { return a == yes },
		{"drop", "accept", "drop"}:     func(a answer) bool { return a == yes },
		{"drop", "return", "drop"}:     func(answer) bool { return true },
		{"return", "accept", "accept"}: func(answer) bool { return false },
	} {
		found := facts(w).Outward(Local{Subnet: webSubnets["ip"], By: "web0"})
		if len(found) > 0 != want(form) {
			t.Errorf("%s, %+v: %+v, want an obstacle: %t", name, w, found, want(form))
		}
	}
}

// Parts of nft's JSON.
func key(kind, name string) string { return fmt.Sprintf(`{%q: {"key": %q}}`, kind, name) }

func header(protocol, field string) string {
	return fmt.Sprintf(`{"payload": {"protocol": %q, "field": %q}}`, protocol, field)
}

func is(left, op, right string) string {
	return fmt.Sprintf(`{"match": {"op": %q, "left": %s, "right": %s}}`, op, left, right)
}

const (
	webPrefix = `{"prefix": {"addr": "10.88.0.0", "len": 16}}`
	pairs     = `{"set": [{"concat": ["web0", "up0"]}, {"concat": ["up0", "web0"]}]}`
)

// nftForms are conditions of nftables, as nft -j lists them.
func nftForms() []form {
	iif, oif, saddr, daddr := key("meta", "iifname"), key("meta", "oifname"), header("ip", "saddr"), header("ip", "daddr")
	l4, state, inOut := key("meta", "l4proto"), key("ct", "state"), `{"concat": [`+key("meta", "iifname")+`, `+key("meta", "oifname")+`]}`
	return []form{
		{`{"counter": {"packets": 0, "bytes": 0}}`, yes},
		{is(iif, "==", `"web0"`), yes},
		{is(iif, "==", `"web*"`), yes},
		{is(iif, "==", `{"set": ["web0", "web1"]}`), yes},
		{is(iif, "==", `"@names"`), unknown},
		{is(iif, "!=", `"bad0"`), yes},
		{is(iif, "!=", `{"set": ["bad0", "bad1"]}`), yes},
		{is(iif, "==", `{"set": [{"elem": {"val": "web0", "comment": "x"}}]}`), unknown},
		{is(saddr, "==", webPrefix), yes},
		{is(saddr, "==", `"@prefixes"`), unknown},
		{is(saddr, "==", `{"range": ["10.88.0.0", "10.88.0.255"]}`), unknown},
		{is(saddr, "==", `{"set": [{"range": ["10.9.0.1", "10.9.0.7"]}, `+webPrefix+`]}`), unknown},
		{is(l4, "==", `{"set": ["icmp", "tcp", "udp"]}`) + ", " + is(iif, "==", `"web0"`), partly},
		{is(key("meta", "nfproto"), "==", `"ipv4"`), unknown},
		{is(key("meta", "protocol"), "==", `"ip"`), unknown},
		{is(state, "in", `"new"`), yes},
		{is(state, "in", `["established", "related", "new"]`), yes},
		{is(state, "!=", `"invalid"`), yes},
		{is(inOut, "==", pairs), unknown},
		{is(iif, "==", `"web0"`) + ", " + is(oif, "==", `"up0"`), partly},
		{is(oif, "==", `"up0"`), partly},
		{is(saddr, "==", `"10.88.0.7"`), partly},
		{is(saddr, "==", `{"range": ["10.88.0.4", "10.88.0.255"]}`), unknown},
		{is(daddr, "==", `{"prefix": {"addr": "198.51.100.0", "len": 24}}`), partly},
		{is(daddr, "!=", `{"prefix": {"addr": "198.51.100.0", "len": 24}}`), partly},
		{is(header("tcp", "dport"), "==", `{"set": [80, 443]}`), partly},
		{is(header("th", "dport"), "==", `53`), partly},
		{is(l4, "==", `"tcp"`), partly},
		{is(iif, "==", `"@seen"`), unknown},
		{is(iif, "==", `"@other"`), unknown},
		{is(key("meta", "iifgroup"), "==", `7`), unknown},
		{is(key("ct", "mark"), "==", `1`), unknown},
		{is(key("meta", "mark"), "!=", `1`), unknown},
		{is(`{"&": [`+key("meta", "mark")+`, 255]}`, "==", `1`), unknown},
		{is(`{"ct": {"key": "ip saddr", "dir": "original"}}`, "==", webPrefix), unknown},
		{is(`{"fib": {"result": "type", "flags": ["daddr"]}}`, "==", `"local"`), unknown},
		{is(header("ether", "saddr"), "==", `"00:11:22:33:44:55"`), unknown},
		{is(key("ct", "status"), "in", `"snat"`), unknown},
		{is(state, "in", `"untracked"`), unknown},
		{is(state, "!=", `["new", "established"]`), unknown},
		{`{"limit": {"rate": 10, "per": "second"}}`, unknown},
		{is(iif, "==", `7`), unknown},
		{is(`{"payload": {"tunnel": "vxlan", "protocol": "ip", "field": "saddr"}}`, "==", webPrefix), unknown},
		{is(`{"payload": {"tunnel": "vxlan", "protocol": "ip6", "field": "saddr"}}`, "==", webPrefix), unknown},
		{`{"set": {"op": "update", "elem": ` + saddr + `, "set": "@seen", "stmt": [{"limit": {"rate": 10, "per": "second", "inv": true}}]}}`, unknown},
		{`{"ct count": {"val": 10, "inv": true}}`, unknown},
		{is(iif, "==", `{"set": ["web0", 7]}`), unknown},
		{is(saddr, "==", `"host.example"`), unknown},
		{is(`"text"`, "==", `"web0"`), unknown},
		{is(`{"ct": {"key": "saddr", "dir": "original"}}`, "==", webPrefix), unknown},
		{is(state, "==", `["established", "related"]`), unknown},
		{is(iif, "in range of", `"web0"`), unknown},
		{is(iif, "==", `"bad0"`), no},
		{is(iif, "!=", `"web0"`), no},
		{is(iif, "==", `{"set": ["bad0", "bad*"]}`), no},
		{is(iif, "==", `"bad0"`) + ", " + is(key("ct", "mark"), "==", `1`), no},
		{is(inOut, "==", `{"set": [{"concat": ["bad0", "up0"]}]}`), unknown},
		{is(saddr, "!=", webPrefix), no},
		{is(saddr, "==", `{"prefix": {"addr": "10.89.0.0", "len": 24}}`), no},
		{is(header("ip6", "saddr"), "==", `{"prefix": {"addr": "fd88::", "len": 64}}`), no},
		{is(header("ip6", "saddr"), "!=", `{"prefix": {"addr": "fd99::", "len": 64}}`), no},
		{is(key("meta", "nfproto"), "==", `"ipv6"`), unknown},
		{is(daddr, "==", `{"prefix": {"addr": "10.88.0.0", "len": 24}}`), no},
		{is(l4, "==", `"ipv6-icmp"`), no},
		{is(header("icmp", "type"), "==", `"echo-request"`), no},
		{is(header("icmp", "type"), "!=", `"echo-request"`), no},
		{is(header("ip", "protocol"), "==", `"icmp"`), no},
		{is(header("ip6", "nexthdr"), "!=", `"tcp"`), no},
		{is(state, "in", `["established", "related"]`), no},
		{is(state, "==", `{"set": ["established", "related"]}`), no},
		{is(state, "!=", `"new"`), no},
		{is(key("ct", "status"), "in", `"dnat"`), no},
	}
}

// nftWorld is the listing of a table of a family with the rules of a world, in which a rule is that of a form.
func nftWorld(family, rule string, w world) string {
	ofChain := func(chain, expr string) string {
		return fmt.Sprintf(`{"rule": {"family": %q, "table": "fw", "chain": %q, "expr": [%s]}}`, family, chain, expr)
	}
	all := []string{
		fmt.Sprintf(`{"chain": {"family": %q, "table": "fw", "name": "forward", "type": "filter", "hook": "forward", "prio": 0, "policy": %q}}`, family, w.policy),
		fmt.Sprintf(`{"chain": {"family": %q, "table": "fw", "name": "empty"}}`, family),
		`{"set": {"name": "names", "table": "fw", "type": "ifname", "elem": ["web0", "web1"]}}`,
		`{"set": {"name": "seen", "table": "fw", "type": "ifname", "flags": ["dynamic"]}}`,
		`{"set": {"name": "prefixes", "table": "fw", "type": "ipv4_addr", "flags": ["interval"], "elem": [` + webPrefix + `]}}`,
		ofChain("forward", is(key("ct", "state"), "in", `["established", "related"]`)+`, {"accept": null}`),
		ofChain("forward", `{"jump": {"target": "a"}}`),
		ofChain("a", rule), ofChain("a", `{"`+w.then+`": null}`), ofChain("b", `{"accept": null}`),
	}
	return `{"nftables": [` + strings.Join(all, ", ") + `]}`
}

// verdictOf is a verdict in nft's JSON.
func verdictOf(name string) string {
	if name == "jump" || name == "goto" {
		return `{"` + name + `": {"target": "b"}}`
	}
	return `{"` + name + `": null}`
}

// mustParse reads a listing of nft.
func mustParse(t *testing.T, family, text string) *Facts {
	t.Helper()
	if !json.Valid([]byte(text)) {
		t.Fatal(text)
	}
	s, err := parseNftables(table{family, "fw"}, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return &Facts{rulesets: []*ruleset{s}}
}

// TestNftForms: each condition, with each verdict, in each family with IPv4.
func TestNftForms(t *testing.T) {
	for _, family := range []string{"inet", "ip"} {
		for _, f := range nftForms() {
			requireForm(t, "nft "+family+" "+f.text, f.want, func(w world) *Facts {
				return mustParse(t, family, nftWorld(family, f.text+", "+verdictOf(w.verdict), w))
			})
		}
	}
}

// TestNftStatements: what is not understood may accept packets, whatever is behind it in its rule. Behind a condition that is not
// met it is nothing.
func TestNftStatements(t *testing.T) {
	const elements = `{"set": [["web0", {"accept": null}], ["bad0", {"drop": null}]]}`
	for _, statement := range []string{
		`{"vmap": {"key": ` + key("meta", "iifname") + `, "data": ` + elements + `}}`, `{"vmap": {"key": ` + key("meta", "iifname") + `, "data": "@m"}}`,
		`{"vmap": {"key": ` + key("ct", "state") + `, "data": {"set": [["established", {"accept": null}]]}}}`, `{"queue": null}`,
		`{"jump": 7}`, `{"xt": {"type": "match", "name": "x"}}`, `{"xt": null}`, `{"new in a later version": {}}`,
	} {
		for _, behind := range []string{``, `, {"counter": null}`, `, {"drop": null}`, `, {"accept": null}`, `, {"jump": {"target": "b"}}`, `, {"return": null}`} {
			for condition, want := range map[string]int{``: 0, is(key("meta", "iifname"), "==", `"bad0"`) + `, `: 1} {
				f := mustParse(t, "inet", nftWorld("inet", condition+statement+behind, world{"", "drop", "drop"}))
				if found := f.Outward(Local{Subnet: webSubnets["ip"], By: "web0"}); len(found) != want {
					t.Errorf("%s%s%s: %+v, want %d", condition, statement, behind, found, want)
				}
			}
		}
	}
}

// TestPlainPolicy: what no rule accepts is found in each place, also beside what accepts answers, as usual firewalls do.
func TestPlainPolicy(t *testing.T) {
	states := key("ct", "state")
	usual := []string{
		``, is(states, "in", `["established", "related"]`) + `, {"accept": null}`,
		is(states, "in", `"invalid"`) + `, {"drop": null}`, `{"log": {"prefix": "x"}}`, `{"mangle": {"key": ` + key("meta", "mark") + `, "value": 1}}`,
		is(header("icmpv6", "type"), "==", `{"set": ["echo-request", "nd-router-advert"]}`) + `, {"accept": null}`,
		`{"limit": {"rate": 10, "per": "minute"}}, {"log": {"prefix": "x"}}`, `{"jump": {"target": "empty"}}`,
	}
	for _, family := range []string{"inet", "ip", "ip6"} {
		for _, rule := range usual {
			f := mustParse(t, family, nftWorld(family, rule, world{"", "return", "drop"}))
			for of, subnet := range webSubnets {
				want := map[bool]int{true: 1}[family == "inet" || family == of]
				found := f.Outward(Local{Subnet: subnet, By: "web0"})
				if len(found) != want || want > 0 && !strings.HasSuffix(found[0].Problem, "nothing outside their bridge, and published ports do not answer") {
					t.Errorf("%s, %s, %s: %+v, want %d", family, rule, subnet, found, want)
				}
			}
		}
	}
}
