// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package isolation

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// unruled has the rule that decides about a flow without rules of the file, and whether it passes: by where it comes from and
// where it goes. "A none" is an attachment to network A of the level none; of one network both have one level.
const unruled = `
from       | host | else | A none | A network | A strict | B none | B network | B strict
host       | 8+   | 8+   | 4+     | 4+        | 4+       | 4+     | 4+        | 4+
else       | 8+   | 8+   | 8+     | 8+        | 7-       | 8+     | 8+        | 7-
A none     | 8+   | 8+   | 8+     |           |          | 8+     | 5-        | 5-
A network  | 8+   | 8+   |        | 8+        |          | 5-     | 5-        | 5-
A strict   | 8+   | 8+   |        |           | 6-       | 5-     | 5-        | 5-
`

// cell is one of that table.
type cell struct{ from, to, decision string }

func unruledCells(t *testing.T) (cells []cell) {
	t.Helper()
	var heading []string
	for line := range strings.Lines(strings.TrimSpace(unruled)) {
		fields := strings.Split(line, "|")
		for i := range fields {
			fields[i] = strings.TrimSpace(fields[i])
		}
		if heading == nil {
			heading = fields
			continue
		}
		for i, decision := range fields[1:] {
			if decision != "" {
				cells = append(cells, cell{fields[0], heading[i+1], decision})
			}
		}
	}
	if len(cells) != 34 {
		t.Fatalf("the table has %d cells", len(cells))
	}
	return cells
}

// endAt returns an end of that table, and makes it a member if it is one.
func endAt(name, address string, members *[]Member) End {
	a := netip.MustParseAddr(address)
	network, level, isMember := strings.Cut(name, " ")
	switch {
	case name == "host":
		return End{Host: true, Address: a}
	case !isMember:
		return End{Address: a}
	}
	m := Member{ID: address, Network: network, Level: Level(level), Namespace: "prod", Job: "job" + address, Addresses: []netip.Addr{netip.MustParseAddr("fd00::1"), a}, Link: "br-" + network}
	*members = append(*members, m)
	return EndOf(m, a)
}

// TestDecisions: every combination of ends and levels, with and without rules of each kind that fit and that do not, published or not.
func TestDecisions(t *testing.T) {
	const from, to = "10.0.0.1", "10.0.0.2"
	source, destination := Selector{CIDRs: []netip.Prefix{netip.MustParsePrefix(from + "/32")}}, Selector{CIDRs: []netip.Prefix{netip.MustParsePrefix(to + "/32")}}
	tcp80, tcp81 := []Ports{{"tcp", 80, 80}}, []Ports{{"tcp", 81, 81}}
	allows := map[string][]Allow{
		"none": nil, "fits": {{Name: "other", Line: 1, From: destination, To: source}, {Name: "a", Line: 2, From: source, To: destination, Ports: tcp80}}, "other port": {{Name: "a", From: source, To: destination, Ports: tcp81}},
		"reverse": {{Name: "a", From: destination, To: source}},
	}
	prod := Selector{Namespace: "prod"}
	egresses := map[string][]Egress{
		"none": nil, "has it": {{Name: "x", From: prod, To: source}, {Name: "e", From: prod, To: destination, Ports: tcp80}}, "lacks it": {{Name: "e", Line: 3, From: prod, To: destination, Ports: tcp81, DNS: true}},
		"of another": {{Name: "e", From: Selector{Namespace: "dev"}, To: source}},
	}
	count := 0
	for _, c := range unruledCells(t) {
		for allow, r1 := range allows {
			for egress, r2 := range egresses {
				for _, published := range []bool{false, true} {
					var members []Member
					f := Flow{endAt(c.from, from, &members), endAt(c.to, to, &members), "tcp", 80, published}
					want := c.decision
					if published {
						want = "3+"
					}
					if egress == "lacks it" && strings.Contains(c.from, " ") {
						want = "2-"
					}
					if allow == "fits" {
						want = "1+"
					}
					count++
					d := Decide(Rules{"rules.hcl", r1, r2}, members, f)
					if got := fmt.Sprint(d.Rule) + map[bool]string{true: "+", false: "-"}[d.Allowed]; got != want {
						t.Errorf("from %s to %s, allow %s, egress %s, published %t: %s, want %s", c.from, c.to, allow, egress, published, got, want)
					}
					if by := map[int]string{1: `allow "a"`, 2: `egress "e"`}[d.Rule]; d.By != by || d.Line != map[int]int{1: 2, 2: 3}[d.Rule] || d.Text == "" || by != "" && !strings.Contains(d.Text, by+" (rules.hcl:") {
						t.Errorf("from %s to %s, allow %s, egress %s: by %q, line %d: %s", c.from, c.to, allow, egress, d.By, d.Line, d.Text)
					}
				}
			}
		}
	}
	if count < 1000 {
		t.Errorf("only %d combinations", count)
	}
}

// TestAddressMakesNoMember: an address without the interface of its attachment is that of nothing that is known.
func TestAddressMakesNoMember(t *testing.T) {
	a, b := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	members := []Member{
		{ID: "a", Network: "n", Level: Strict, Job: "web", Addresses: []netip.Addr{a}, Link: "br0"},
		{ID: "b", Network: "n", Level: Strict, Job: "db", Addresses: []netip.Addr{b}, Link: "br0"},
	}
	r := Rules{Allow: []Allow{{Name: "x", From: Selector{Job: "web"}, To: Selector{Job: "db"}}}}
	for link, want := range map[string]int{"br0": 1, "br1": 7, "": 7} {
		if d := Decide(r, members, Flow{From: End{Address: a, Link: link}, To: EndOf(members[1], b)}); d.Rule != want {
			t.Errorf("from %s by %q: %+v, want rule %d", a, link, d, want)
		}
	}
	if d := Decide(r, members, Flow{From: End{Host: true, Address: a, Link: "br0"}, To: EndOf(members[1], b)}); d.Rule != 4 {
		t.Errorf("the host: %+v", d)
	}
	members[1].Link = "" // on another host
	if d := Decide(Rules{}, members, Flow{From: End{Host: true}, To: End{Address: b}}); d.Rule != 8 || !d.Allowed {
		t.Errorf("this host to an attachment of another: %+v", d)
	}
}

// TestDNS: name servers are reached wherever they are, if the rule says so.
func TestDNS(t *testing.T) {
	a := netip.MustParseAddr("10.0.0.1")
	members := []Member{{Network: "n", Namespace: "batch", Addresses: []netip.Addr{a}, Link: "br0"}}
	for dns, want := range map[bool]string{false: "tcp/443", true: "udp/53 tcp/53 tcp/443"} {
		r := Rules{Egress: []Egress{{Name: "x", From: Selector{Namespace: "batch"}, To: Selector{CIDRs: []netip.Prefix{netip.MustParsePrefix("9.9.9.9/32")}}, Ports: []Ports{{"tcp", 443, 443}}, DNS: dns}}}
		var reached []string
		for _, f := range []Flow{{Protocol: "udp", Port: 53}, {Protocol: "tcp", Port: 53}, {Protocol: "tcp", Port: 443}, {Protocol: "udp", Port: 443}, {Protocol: "icmp"}, {Protocol: "sctp", Port: 53}} {
			f.From, f.To = EndOf(members[0], a), End{Address: netip.MustParseAddr("9.9.9.9")}
			if Decide(r, members, f).Allowed {
				reached = append(reached, fmt.Sprintf("%s/%d", f.Protocol, f.Port))
			}
		}
		if got := strings.Join(reached, " "); got != want {
			t.Errorf("dns %t: %s, want %s", dns, got, want)
		}
	}
}

// TestSelectors: what each selects of attachments and addresses.
func TestSelectors(t *testing.T) {
	web := Member{ID: "web", Network: "front", Namespace: "prod", Job: "web", Group: "g1", Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1")}}
	unknown := Member{ID: "unknown", Network: "front"}
	for _, test := range []struct {
		s        Selector
		members  string
		address  string
		selected bool
		text     string
	}{
		{Selector{}, "web unknown", "192.0.2.1", true, "everything"},
		{Selector{Job: "web"}, "web", "10.0.0.1", false, `job "web"`},
		{Selector{Job: "w*", Namespace: "prod"}, "web", "", false, `namespace "prod" job "w*"`},
		{Selector{Job: "web", Namespace: "dev"}, "", "", false, `namespace "dev" job "web"`},
		{Selector{Group: "g1", Network: "front"}, "web", "", false, `group "g1" network "front"`},
		{Selector{Network: "*"}, "web unknown", "10.0.0.1", false, `network "*"`},
		{Selector{Namespace: "*"}, "web", "", false, `namespace "*"`},
		{Selector{Network: noNetwork}, "", "10.0.0.1", false, "nothing"},
		{Selector{CIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}}, "", "10.9.9.9", true, "10.0.0.0/8 fd00::/8"},
		{Selector{CIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}, "", "::ffff:10.9.9.9", true, "10.0.0.0/8"},
		{Selector{CIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}, "", "192.0.2.1", false, "10.0.0.0/8"},
		{Selector{CIDRs: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}}, "", "fd00::1", false, "0.0.0.0/0"},
	} {
		var selected []string
		for _, m := range []Member{web, unknown} {
			if test.s.selects(m) {
				selected = append(selected, m.ID)
			}
		}
		if got := strings.Join(selected, " "); got != test.members || test.s.String() != test.text {
			t.Errorf("%+v selects %q and is %q, want %q and %q", test.s, got, test.s, test.members, test.text)
		}
		address, _ := netip.ParseAddr(test.address)
		if test.address != "" && test.s.selectsAddress(address) != test.selected {
			t.Errorf("%s selects %s: %t", test.s, test.address, !test.selected)
		}
	}
}

// TestPatterns match whole texts.
func TestPatterns(t *testing.T) {
	for pattern, want := range map[string]string{
		"web": "web", "w*": "web w web-1 web/x", "*b": "web b", "*": "web w b web-1 web/x", "w*b": "web", "web*": "web web-1 web/x", "*e*b*": "web web-1 web/x", "w**b": "web", "*-*": "web-1", "web/*": "web/x", "ww*": "", "*bb": "", "w*w": "", "": "",
	} {
		matched := slices.DeleteFunc([]string{"web", "w", "b", "web-1", "web/x"}, func(text string) bool { return !fits(pattern, text) })
		if got := strings.Join(matched, " "); got != want {
			t.Errorf("%q: %s, want %s", pattern, got, want)
		}
	}
}

// TestInsideDecision: to an attachment that is kept apart inside, its own host is as any machine, and to hosts it is no attachment: what one of the two ends denies is
// denied.
func TestInsideDecision(t *testing.T) {
	inside := func(name, network, job string, last byte, level Level) Member {
		return Member{ID: name, Network: network, Level: level, Namespace: "prod", Job: job, Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, last})}, Inside: true}
	}
	onBridge := func(name, network string, last byte, level Level) Member {
		m := inside(name, network, name, last, level)
		m.Inside, m.Link = false, "br0"
		return m
	}
	members := []Member{
		inside("web", "lan", "web", 2, Strict), inside("db", "lan", "db", 3, Strict), inside("open", "wide", "open", 4, None),
		onBridge("strict", "s", 5, Strict), onBridge("apart", "n", 6, Network), onBridge("plain", "o", 7, None), onBridge("limited", "o", 8, None),
	}
	host := Selector{Host: true, Network: noNetwork}
	rules := Rules{
		Allow: []Allow{
			{Name: "web reaches db", From: Selector{Job: "web"}, To: Selector{Job: "db"}}, {Name: "to the bridge", From: Selector{Job: "web"}, To: Selector{Network: "s"}},
			{Name: "from the host", From: host, To: Selector{Network: "lan"}}, {Name: "an address", From: Selector{CIDRs: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/32")}}, To: Selector{Job: "db"}},
		},
		Egress: []Egress{{Name: "to the lan", From: Selector{Job: "limited"}, To: Selector{Network: "lan"}}},
	}
	end := func(name string) End {
		for _, m := range members {
			if m.ID == name {
				return EndOf(m, m.Addresses[0])
			}
		}
		a, _ := netip.ParseAddr(name)
		return End{Host: name == "host", Address: a}
	}
	for _, test := range []struct{ from, to, want string }{
		{"web", "db", "1+"}, {"db", "web", "6-"}, {"open", "web", "5-"}, {"web", "open", "5-"}, {"open", "198.51.100.1", "8+"}, {"198.51.100.1", "open", "8+"},
		{"host", "db", "7-"}, {"host", "open", "8+"}, {"web", "host", "8+"}, {"192.0.2.1", "db", "1+"}, {"192.0.2.2", "db", "7-"},
		{"web", "strict", "7-"}, {"open", "strict", "5-"}, {"open", "apart", "5-"}, {"open", "plain", "8+"}, {"plain", "open", "8+"}, {"plain", "db", "5-"}, {"strict", "open", "5-"},
		{"limited", "open", "2-"}, {"limited", "db", "5-"},
	} {
		f := Flow{From: end(test.from), To: end(test.to), Protocol: "tcp", Port: 80, Published: test.from == "host"}
		d := Decide(rules, members, f)
		if got := fmt.Sprintf("%d%s", d.Rule, map[bool]string{true: "+", false: "-"}[d.Allowed]); got != test.want {
			t.Errorf("%s to %s: %s (%s), want %s", test.from, test.to, got, d.Text, test.want)
		}
	}
	var peers []string
	for _, p := range ReachedBy(rules, members[0]) {
		peers = append(peers, fmt.Sprintf("%t %s", p.Allowed, p.Peer))
	}
	if got, want := strings.Join(peers, ", "), "false attachments of its network, false attachments of other networks, false this host, and everything else"; got != want {
		t.Errorf("it is reached by %s, want %s", got, want)
	}
}
