// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package traffic

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/cluster/forwarding"
	"github.com/allocnet/allocnet/cmd/allocnet/cli"
	"github.com/allocnet/allocnet/isolation"
)

// TestFilters: what the other filters of a host do is told, and is an exit code only if it is certain that they drop a flow.
func TestFilters(t *testing.T) {
	rules := policyHost(t)
	drop, doubt := "the policy of the chain FORWARD (iptables-nft)", "a rule of the chain c has a match that is not read (nft table inet fw)"
	for _, test := range []struct {
		fate         forwarding.Fate
		to           string
		code         int
		verdict, say string
	}{
		{forwarding.Fate{}, "db-1:5432", cli.ExitDone, filtersPass, "no other filter of this host drops it"},
		{forwarding.Fate{Drops: []string{drop}}, "db-1:5432", cli.ExitDenied, filtersDrop, "dropped by " + drop},
		{forwarding.Fate{Drops: []string{drop}, Doubts: []string{doubt}}, "db-1:5432", cli.ExitDenied, filtersDrop, "dropped by " + drop},
		{forwarding.Fate{Doubts: []string{doubt}}, "db-1:5432", cli.ExitDone, filtersUnknown, "not known: " + doubt},
		{forwarding.Fate{}, "db-1:80", cli.ExitDenied, filtersPass, "no other filter of this host drops it"},
	} {
		code, out, _ := runsWith(t, fate{Fate: test.fate}, "policy", "test", "--rules", rules, "web-1", test.to)
		if lines := strings.Split(strings.TrimSpace(out), "\n"); code != test.code || strings.Join(strings.Fields(lines[len(lines)-1]), " ") != "filters "+test.say {
			t.Errorf("%+v: exit code %d, want %d\n%s", test, code, test.code, out)
		}
		_, out, _ = runsWith(t, fate{Fate: test.fate}, "policy", "test", "--rules", rules, "web-1", test.to, "--json")
		var tested testedJSON
		if err := json.Unmarshal([]byte(out), &tested); err != nil || tested.Filters.Verdict != test.verdict || tested.Allowed == (test.to == "db-1:80") {
			t.Errorf("%+v: %v\n%s", test, err, out)
		}
	}
}

// TestCrossing: which of the host's filters see a flow, and by which interfaces it comes and goes.
func TestCrossing(t *testing.T) {
	rules := policyHost(t)
	for args, want := range map[string]string{
		"web-1 db-1:5432":            "forward 10.0.0.5 br0 10.1.0.5 br1  tcp 5432 false",
		"db-1 db-2:80":               "forward 10.1.0.5 br1 10.1.0.6 br1  tcp 80 false", // strict: routed
		"web-1 web-1/icmp":           "",                                                // the host does not see it
		"db-2@net1 db-2@net1:80":     "",
		"host db-1:80":               "output 10.1.0.1  10.1.0.5 br1  tcp 80 false",
		"db-2 host:53/udp":           "input 10.1.0.6 br1 10.1.0.1   udp 53 false",
		"host 127.0.0.1:80":          "input invalid IP lo 127.0.0.1   tcp 80 false",
		"127.0.0.1 db-1:80":          "output 127.0.0.1  10.1.0.5 br1  tcp 80 false",
		"web-1 host:8004":            "forward 10.0.0.5 br0 10.1.0.5 br1  tcp 5432 true 10.1.0.1:8004",
		"db-1 127.0.0.1:8004":        "forward 10.1.0.5 br1 10.1.0.5 br1  tcp 5432 true 127.0.0.1:8004",
		"198.51.100.1 host:8004":     "forward 198.51.100.1 ",
		"db-2@net1 [fd00::9]:53/udp": "forward fd00::6 br2 fd00::9 ",
	} {
		var asked []forwarding.Flow
		_, out, errs := runsWith(t, fate{asked: &asked}, append([]string{"policy", "test", "--rules", rules}, strings.Fields(args)...)...)
		got := ""
		for _, f := range asked {
			got += fmt.Sprint(f.Hook, " ", f.From, " ", f.FromLink, " ", f.To, " ", f.ToLink, " ", f.Bridge, " ", f.Protocol, " ", f.Port, " ", f.IsPublished, " ", f.Asked)
		}
		if !strings.HasPrefix(got, want) || (got == "") != (want == "") {
			t.Errorf("%s: asked %q, want %q\n%s%s", args, got, want, out, errs)
		}
	}
}

// TestCrossingOfNeighbours: what passes between attachments to one bridge the bridge forwards, unless a rule egress has them apart.
func TestCrossingOfNeighbours(t *testing.T) {
	near := []isolation.Member{
		{ID: "a", Network: "open", Link: "br0", Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.5")}}, {ID: "b", Network: "open", Link: "br0", Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.6")}},
	}
	flow := isolation.Flow{From: isolation.EndOf(near[0], near[0].Addresses[0]), To: isolation.EndOf(near[1], near[1].Addresses[0]), Protocol: "tcp", Port: 80}
	limits := isolation.Rules{Egress: []isolation.Egress{{Name: "open", From: isolation.Selector{Network: "open"}}}}
	for _, test := range []struct {
		rules isolation.Rules
		want  string
	}{{isolation.Rules{}, "br0"}, {limits, ""}} {
		if got := (&traffic{rules: test.rules, members: near}).crossing(flow); got.Bridge != test.want || got.Hook != forwarding.Forward {
			t.Errorf("%+v, want it to pass the bridge %q", got, test.want)
		}
	}
}
