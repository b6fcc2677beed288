// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"net"
	"net/netip"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/roottest"
)

// TestRootGuardLoopback: the guard of a link is made once, made again where it is missing, and is what nft prints. Other links
// are not in it, and those of pairs that are gone do not stay.
func TestRootGuardLoopback(t *testing.T) {
	roottest.Require(t)
	run := func(script string) string {
		t.Helper()
		out, err := exec.Command("sh", "-ec", script).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", script, err, out)
		}
		return string(out)
	}
	run(`ip link add web0 type bridge; ip addr add 10.88.0.1/24 dev web0; ip link set web0 up
		ip link add veth0123abcd type bridge; ip addr add 10.89.0.1/24 dev veth0123abcd; ip link set veth0123abcd up`)
	defer run("ip link del web0; ip link del veth0123abcd 2>/dev/null || true")
	web, pair := netip.MustParseAddr("10.88.0.2"), netip.MustParseAddr("10.89.0.2")
	guard := func(addresses ...netip.Addr) string {
		t.Helper()
		if err := GuardLoopback(t.Context(), addresses); err != nil {
			t.Fatal(err)
		}
		return run("nft list table ip allocnet_loopback")
	}
	for _, damage := range []string{"list ruleset", "flush chain ip allocnet_loopback links", "flush chain ip allocnet_loopback prerouting", "flush ruleset"} {
		run("nft " + damage)
		guard(web)
		out := guard(netip.MustParseAddr("fd00::2"), web, web)
		for _, rule := range []string{`iifname "web0" drop comment "web0"`, "type filter hook prerouting priority raw", "ip daddr 127.0.0.0/8 jump links"} {
			if strings.Count(out, rule) != 1 || strings.Count(out, "drop") != 1 {
				t.Errorf("after nft %s, want %q once:\n%s", damage, rule, out)
			}
		}
	}
	if out := guard(pair); strings.Count(out, "drop") != 2 {
		t.Errorf("want the rule of the pair, too:\n%s", out)
	}
	run("ip link del veth0123abcd; nft delete rule ip allocnet_loopback links handle $(nft -a list chain ip allocnet_loopback links | sed -n 's/.*web0.*handle //p')")
	if out := guard(web); strings.Contains(out, "veth0123abcd") || !strings.Contains(out, `"web0"`) {
		t.Errorf("want the rule of web0 alone:\n%s", out)
	}
}

// TestSharedRules: a rule is added once, in one batch as in two, and rules that have become useless go with it.
func TestSharedRules(t *testing.T) {
	listed := func(links ...string) (all []listedRule) {
		for i, link := range links {
			rule := newSharedRule(nftablesRule{comment: link})
			rule.handle = uint64(i + 1)
			all = append(all, rule)
		}
		return all
	}
	for name, test := range map[string]struct {
		there, wanted  []string
		added, deleted int
	}{
		"none":             {nil, []string{"web0"}, 1, 0},
		"two attachments":  {nil, []string{"web0", "web0"}, 1, 0},
		"two links":        {nil, []string{"web0", "web1"}, 2, 0},
		"there":            {[]string{"gone", "web0"}, []string{"web0"}, 0, 0},
		"useless ones":     {[]string{"gone", "web1", "gone"}, []string{"web0"}, 1, 2},
		"useless one once": {[]string{"gone"}, []string{"web0", "web1"}, 2, 1},
	} {
		b := &nftablesBatch{}
		l := &nftablesListings{rules: map[string][]listedRule{}, number: 7}
		l.set(loopbackGuard, guardLinks, listed(test.there...))
		for _, link := range test.wanted {
			r := guardRules(link).nftables
			r.stale = func(comment string) bool { return comment == "gone" }
			if err := l.change(b, r, false); err != nil {
				t.Fatal(err)
			}
		}
		added, deleted := 0, 0
		for _, m := range b.messages {
			switch m.Header.Type & 0xff {
			case unix.NFT_MSG_NEWRULE:
				added++
			case unix.NFT_MSG_DELRULE:
				deleted++
			}
		}
		if b.err != nil || added != test.added || deleted != test.deleted || (b.generation == 7) != (added > 0) {
			t.Errorf("%s: %d added, %d deleted, generation %d, %v", name, added, deleted, b.generation, b.err)
		}
	}
}

// TestRoutesLocalnet: only connections by the host's IPv4, with addresses translated, need it.
func TestRoutesLocalnet(t *testing.T) {
	no, yes := false, true
	v4, v6 := net.IPNet{IP: net.IPv4(10, 0, 0, 2)}, net.IPNet{IP: net.ParseIP("fd00::2")}
	for _, test := range []struct {
		snat      *bool
		addresses []net.IPNet
		want      bool
	}{
		{nil, []net.IPNet{v4}, true}, {&yes, []net.IPNet{v6, v4}, true}, {&no, []net.IPNet{v4}, false}, {nil, []net.IPNet{v6}, false}, {nil, nil, false},
	} {
		conf := &portmapConfig{SNAT: test.snat, addresses: test.addresses}
		if got := conf.routesLocalnet(); got != test.want && supportsNFTables() {
			t.Errorf("%+v: %t", test, got)
		}
	}
}
