// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/exhaustive"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/roottest"
)

// nftColumnForms are selectors, each with values of which the first is no host name.
var nftColumnForms = map[string][]string{
	"ip saddr":             {"10.0.0.1", "router", `"router"`, "10.0.0.0/8", "router/24", "10.0.0.1-10.0.0.9", "10.0.0.1-router", "10.0.0.256", "0x0a000001", "10.1"},
	"ip6 daddr":            {"fd00::1", "router", "fd00::/8", "fd00::1-fd00::9", "fd00::1 - router", "cafe"},
	"ct original ip saddr": {"10.0.0.1", "router"},
	"ct reply ip6 daddr":   {"fd00::1", "router"},
	"rt ip nexthop":        {"10.0.0.1", "router"},
	"tcp dport":            {"80", "http", "80-90"},
	"iifname":              {`"eth0"`, "eth0"},
	"ip protocol":          {"tcp"},
	"ether saddr":          {"02:00:00:00:00:0a"},
	"meta mark":            {"0x1"},
}

// nftForms are conditions of a selector, its first value, and any of its values.
var nftForms = []string{
	"%[1]s %[3]s", "%[1]s == %[3]s", "%[1]s eq %[3]s", "%[1]s != %[3]s", "%[1]s >= %[3]s", "%[1]s { %[3]s }", "%[1]s != {%[2]s, %[3]s}", "%[1]s {%[3]s,%[2]s}",
	"%[1]s vmap { %[2]s : accept, %[3]s : drop }", "%[1]s vmap { %[3]s: accept, *: drop }", "%[1]s vmap {%[3]s:accept}", "%[1]s & 255.255.0.0 == %[3]s", "%[1]s and 255.255.0.0 == { %[3]s }",
	"%[1]s { %[2]s comment \"router\", %[3]s counter }", "meta mark set %[1]s map { %[3]s : 1 }", "ct mark set jhash %[1]s mod 2 counter", "ct mark set jhash %[1]s . tcp dport mod 2 seed 0x1",
	"add @recent { %[1]s }", "update @recent { %[1]s timeout 1m limit rate over 5/second } %[1]s %[3]s", "%[1]s @addresses", "%[1]s set %[3]s",
	"tcp dport 80 %[1]s %[3]s", "tcp dport { 80, http } %[1]s %[3]s", "ip protocol tcp %[1]s %[3]s", "%[1]s %[2]s %[1]s %[3]s", "iifname . tcp dport eth0 . http %[1]s %[3]s",
	"ip protocol . iifname tcp . eth0 %[1]s %[3]s", "meta protocol ip %[1]s %[3]s", "ct state established,related %[1]s %[3]s", "counter log prefix \"ip saddr router\" %[1]s %[3]s",
	"fib daddr . iif type local %[1]s %[3]s", "limit rate 10/second burst 5 packets %[1]s %[3]s", "tcp option maxseg size 500 %[1]s %[3]s", "reject with icmp type host-unreachable comment \"%[1]s router\"",
	"dup to %[3]s", "dnat to %[3]s", "dnat to %[3]s:80", "snat ip to %[3]s", "%[1]s . iifname . tcp dport %[3]s . eth0 . http", "%[1]s . iifname . tcp dport %[2]s . eth0 . http %[1]s %[3]s",
}

// generatedConditions are of one selector, and concatenations of each two, with and without a set.
func generatedConditions() []string {
	var all []string
	for a, values := range nftColumnForms {
		for _, value := range values {
			for _, form := range nftForms {
				all = append(all, fmt.Sprintf(form+"%[4]s", a, values[0], value, ""))
			}
		}
		for _, value := range values[:min(len(values), 2)] {
			for b, others := range nftColumnForms {
				for _, other := range others[:min(len(others), 2)] {
					all = append(all, fmt.Sprintf("%s . %s %s . %s", a, b, value, other), fmt.Sprintf("%s . %s { %s . %s, %s . %s }", a, b, values[0], others[0], value, other),
						fmt.Sprintf("%s . %s vmap { %s . %s : drop }", a, b, value, other))
				}
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// nftErrors returns what nft says to conditions of rules, each by itself; empty: it takes them. It asks no server of DNS.
func nftErrors(t *testing.T, all []string) (answers []string) {
	t.Helper()
	unconnected, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	defer unconnected.Close()
	nft := func(stdin string, args ...string) (out string, err error) {
		err = unconnected.Do(func() error {
			cmd := exec.CommandContext(t.Context(), "nft", args...)
			cmd.Stdin = strings.NewReader(stdin)
			data, err := cmd.CombinedOutput()
			out = string(data)
			return err
		})
		return out, err
	}
	const table = "table inet t { set addresses { type ipv4_addr; }; set recent { type ipv4_addr; flags dynamic,timeout; size 9; }\nchain c { type nat hook prerouting priority 0; }; }"
	if out, err := nft(table, "-f", "-"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	const ended = "ended\n" // no command, which nft says with its text
	for len(answers) < len(all) {
		var commands strings.Builder
		for _, conditions := range all[len(answers):] {
			commands.WriteString("add rule inet t c " + conditions + " fib daddr type local accept\n" + ended)
		}
		out, err := nft(commands.String(), "--check", "--interactive")
		parts := strings.Split(out, ended)
		for _, answer := range parts[:len(parts)-1] {
			if strings.Count(answer, "Error: ") == 1 { // that it has ended
				answer = ""
			}
			answers = append(answers, answer)
		}
		if len(answers) < len(all) {
			if err == nil {
				t.Fatalf("nft answers to %d of %d conditions: %s", len(answers), len(all), out)
			}
			answers = append(answers, "nft ends: "+parts[len(parts)-1]) // by an assertion
		}
	}
	return answers
}

// TestRootHostNamesOfNFT: of generated conditions those are refused that nft would have looked up, and no others. What it refuses itself,
// without a look-up, may be refused.
func TestRootHostNamesOfNFT(t *testing.T) {
	roottest.Require(t)
	all := exhaustive.Of(t, generatedConditions())
	accepted, lookedUp := 0, 0
	answers := nftErrors(t, all)
	for i, conditions := range all {
		name, isLookedUp := hostName(strings.Fields(conditions)), false
		switch {
		case answers[i] == "":
			accepted++
		case strings.Contains(answers[i], "Could not resolve hostname") && !strings.Contains(answers[i], "Address family for hostname not supported"):
			lookedUp++
			isLookedUp = true
		default:
			continue
		}
		if isLookedUp != (name != "") {
			t.Errorf("%s: the host name is %q, nft: %s", conditions, name, answers[i])
		}
	}
	if accepted == 0 || lookedUp == 0 {
		t.Errorf("nft accepts %d of %d, and looks up %d", accepted, len(all), lookedUp)
	}
}
