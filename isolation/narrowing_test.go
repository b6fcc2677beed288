// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package isolation

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

// TestNarrowingTexts: what a job may write, and what that is. Each mistake is an error that has it.
func TestNarrowingTexts(t *testing.T) {
	for text, want := range map[string]string{
		"5432/tcp":                               "5432/tcp",
		" 5432/tcp,9100/tcp ":                    "5432/tcp, 9100/tcp",
		"10.0.0.0/8 5432/tcp, fd00::/8":          "10.0.0.0/8 5432/tcp, fd00::/8",
		"8000-8010/udp icmp 10.0.0.0/8 ::1/128":  "10.0.0.0/8 ::1/128 8000-8010/udp icmp",
		"tcp":                                    "tcp",
		"none":                                   "nothing",
		"0.0.0.0/0":                              "0.0.0.0/0",
		"dns":                                    `egress: 53/udp 53/tcp`,
		"10.0.0.53/32 dns, 192.0.2.0/24 443/tcp": `egress: 10.0.0.53/32 53/udp 53/tcp, 192.0.2.0/24 443/tcp`,
		"":                                       `error: "": want parts`,
		" ":                                      `error: " ": want parts`,
		"5432/tcp,":                              `error: "5432/tcp,": want parts`,
		"5432":                                   `error: "5432": want a prefix`,
		"10.0.0.1":                               `error: "10.0.0.1": want a prefix`,
		"::ffff:10.0.0.0/104":                    `error: "::ffff:10.0.0.0/104": want a prefix`,
		"10.0.0.1/8":                             `error: "10.0.0.1/8": want 10.0.0.0/8, or 10.0.0.1/32`,
		"db":                                     `error: "db": want a prefix`,
		"none, 5432/tcp":                         `error: "none": want a prefix`,
		"5432/TCP":                               `error: "5432/TCP": want a prefix`,
		"0/tcp":                                  `error: "0/tcp": want a prefix`,
		"5432/tcp;9100/tcp":                      `error: "5432/tcp;9100/tcp": want a prefix`,
		strings.Repeat("1/tcp ", mostWords+1):    "error: 65 prefixes and ports: want at most 64",
		"1/tcp" + strings.Repeat(" ", mostBytes): "error: 4005 bytes: want at most 4000",
		strings.Repeat(",1/tcp", mostWords+1):    "error: 65 prefixes and ports: want at most 64",
		strings.Repeat("1/tcp, ", 40) + "10.0.0.": `error: "10.0.0.": want a prefix`,
	} {
		for direction, parse := range map[string]func(string) (Narrowing, error){"ingress": ParseIngress, "egress": ParseEgress} {
			n, err := parse(text)
			got := n.String()
			if err != nil {
				got = "error: " + err.Error()
			}
			want := want
			if only, isEgress := strings.CutPrefix(want, "egress: "); isEgress {
				want = only
				if direction == "ingress" {
					want = `error: "dns": want a prefix, as in 10.0.0.0/8 or 192.0.2.1/32, ports, as in 5432/tcp, 8000-8010/udp or icmp, or none`
				}
			}
			if !strings.HasPrefix(want, "error: ") && got != want || !strings.HasPrefix(got, want) || err == nil && n == nil {
				t.Errorf("%s %q: %s, want %s", direction, text, got, want)
			}
		}
	}
}

// narrowings are what jobs write, with whether it leaves flows to port 80 of TCP whose other end is 10.0.0.1.
var narrowings = map[string]bool{
	"": true, "none": false, "80/tcp": true, "80/udp": false, "81/tcp": false, "10.0.0.1/32": true, "10.0.0.1/32 80/tcp": true, "10.0.0.1/32 81/tcp": false,
	"10.0.0.2/32": false, "::/0, 10.0.0.2/31": false, "81/tcp, 10.0.0.0/24 tcp": true, "icmp": false,
}

// TestNarrowedDecisions: what a job does not leave is denied, whatever allows it, and what it leaves is decided as without that. It narrows its own
// attachments, and of what comes from the host nothing.
func TestNarrowedDecisions(t *testing.T) {
	const from, to = "10.0.0.1", "10.0.1.1"
	everything := Rules{Allow: []Allow{{Name: "everything"}}}
	count := map[bool]int{}
	for _, c := range unruledCells(t) {
		for ingress, leavesIngress := range narrowings {
			for egress, leavesEgress := range narrowings {
				for _, rules := range []Rules{{}, everything} {
					for _, published := range []bool{false, true} {
						var members []Member
						f := Flow{endAt(c.from, from, &members), endAt(c.to, to, &members), "tcp", 80, published}
						plain := Decide(rules, members, f)
						for i := range members {
							members[i].Ingress, members[i].Egress = narrowed(t, ingress, ParseIngress), narrowed(t, strings.ReplaceAll(egress, "10.0.0.", "10.0.1."), ParseEgress)
						}
						if len(members) == 2 { // only one of them has the other's
							members[0].Ingress, members[1].Egress = nil, nil
						}
						isDenied := strings.Contains(c.from, " ") && !leavesEgress || strings.Contains(c.to, " ") && c.from != "host" && !leavesIngress
						got := Decide(rules, members, f)
						count[isDenied]++
						if isDenied && (got.Allowed || got.Rule != 0 || !strings.Contains(got.Text, "narrows its")) || !isDenied && got != plain {
							t.Errorf("from %s to %s, ingress %q, egress %q, published %t, %d rules: %+v, without %+v", c.from, c.to, ingress, egress, published, len(rules.Allow), got, plain)
						}
					}
				}
			}
		}
	}
	if count[true] < 1000 || count[false] < 1000 {
		t.Errorf("denied and not: %v", count)
	}
}

func narrowed(t *testing.T, text string, parse func(string) (Narrowing, error)) Narrowing {
	t.Helper()
	if text == "" {
		return nil
	}
	n, err := parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestNarrowedPassages: what is left comes first, before the rules of the operator.
func TestNarrowedPassages(t *testing.T) {
	m := Member{Network: "n", Level: Strict, Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.5")}}
	r := Rules{Allow: []Allow{{Name: "everything", Line: 1}}}
	for _, test := range []struct{ ingress, egress, reachedBy, reaches string }{
		{"", "", `true everything`, `true everything`},
		{"5432/tcp", "", `false everything but this host, 5432/tcp by ingress of the job`, `true everything`},
		{"none", "10.0.0.0/8 80/tcp, dns", `false everything but this host, nothing by ingress of the job`, `false everything but 10.0.0.0/8 80/tcp, 53/udp 53/tcp by egress of the job`},
	} {
		m.Ingress, m.Egress = narrowed(t, test.ingress, ParseIngress), narrowed(t, test.egress, ParseEgress)
		for want, all := range map[string][]Passage{"1 " + test.reachedBy: ReachedBy(r, m), "2 " + test.reaches: Reaches(r, m)} {
			got := fmt.Sprintf("%t %s", all[0].Allowed, all[0].Peer)
			if all[0].Line == 0 {
				got += " by " + all[0].By
			}
			if got != want[2:] || all[0].Line == 0 && all[1].Line != 1 {
				t.Errorf("ingress %q, egress %q: %s, then %+v, want %s", test.ingress, test.egress, got, all[1], want)
			}
		}
		if routed := r.AreRouted(m, m); !routed {
			t.Errorf("the host does not route between attachments to a strict network")
		}
		open := m
		open.Level = None
		if got, want := r.AreRouted(open, open), test.ingress+test.egress != ""; got != want {
			t.Errorf("ingress %q, egress %q: routed by the host: %t", test.ingress, test.egress, got)
		}
	}
}
