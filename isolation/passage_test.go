// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package isolation

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

// TestPassages: what is told of an attachment, in its order.
func TestPassages(t *testing.T) {
	rules, err := parse("f", []byte(example))
	if err != nil {
		t.Fatal(err)
	}
	a := netip.MustParseAddr("10.0.0.5")
	for _, test := range []struct {
		m                  Member
		reachedBy, reaches string
	}{
		{
			Member{Network: "n", Job: "db", Namespace: "prod", Level: Strict, Addresses: []netip.Addr{a}},
			`+job "web" [5432/tcp 8000-8010/udp icmp] 2; +office: 10.0.0.0/8 fd00::/8; +this host; -attachments of its network; -attachments of other networks; -everything else`,
			`+office: network "*"; -attachments of its network; -attachments of other networks; +this host, and everything else`,
		},
		{
			Member{Network: "n", Job: "idle", Namespace: "batch", Level: Network},
			`+office: 10.0.0.0/8 fd00::/8; +this host; +attachments of its network; -attachments of other networks; +everything else`,
			`-everything but 10.0.0.0/8, 53/udp 53/tcp, nothing; +attachments of its network; -attachments of other networks; +this host, and everything else`,
		},
		{
			Member{Network: "n", Group: "g"},
			`+office: 10.0.0.0/8 fd00::/8; +this host; +attachments of its network; +attachments of networks without isolation; -attachments of other networks; +everything else`,
			`-everything but 53/udp 53/tcp; +attachments of its network; +attachments of networks without isolation; -attachments of other networks; +this host, and everything else`,
		},
	} {
		for direction, passages := range map[string][]Passage{test.reachedBy: ReachedBy(rules, test.m), test.reaches: Reaches(rules, test.m)} {
			var got []string
			for _, p := range passages {
				text := map[bool]string{true: "+", false: "-"}[p.Allowed]
				if p.By == `allow "office"` {
					text += "office: "
				}
				text += strings.Replace(p.Peer, `namespace "prod" job`, "job", 1)
				if p.Ports != nil {
					text += fmt.Sprintf(" %v %d", p.Ports, p.Line)
				}
				got = append(got, text)
				if p.By == "" {
					t.Errorf("%+v: %q is by nothing", test.m, p.Peer)
				}
			}
			if got := strings.Join(got, "; "); got != direction {
				t.Errorf("%+v:\ngot  %s\nwant %s", test.m, got, direction)
			}
		}
	}
	limit, _ := limitOf(rules, Member{Job: "idle", Namespace: "batch"})
	if limit.By != `egress "batch", egress "nothing"` || limit.Line != 17 {
		t.Errorf("the limit is by %s, line %d", limit.By, limit.Line)
	}
}

// TestSelecting: the rules that have an attachment on either side.
func TestSelecting(t *testing.T) {
	rules, err := parse("f", []byte(example))
	if err != nil {
		t.Fatal(err)
	}
	for want, m := range map[string]Member{
		"web reaches db, office": {Network: "n", Job: "web", Namespace: "prod"}, "office": {Network: "n"}, "office, batch, nothing": {Network: "n", Job: "idle", Namespace: "batch"},
	} {
		if got := strings.Join(rules.Selecting(m), ", "); got != want {
			t.Errorf("%+v: %s, want %s", m, got, want)
		}
	}
	if got := strings.Join(rules.Names(), ", "); got != "web reaches db, office, batch, names only, nothing" {
		t.Errorf("the names are %s", got)
	}
}
