// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package differential

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// additions are what the ADDs of the plugins have made. Another executor must make it even where it may
// have less than they: a line of theirs that was left by an earlier attachment is not new after ADD.
type additions struct {
	lines map[string]bool
	// names are those of what the attachments consisted of.
	names map[string]bool
}

// missing returns the lines of an ADD of the plugins that got lacks: those that are new since the
// snapshot before, and those of an earlier ADD that this one would have made again. What mentions
// an interface or an address that the allocation had only earlier is a leftover. If the ADD failed
// for some networks, only what mentions those of the others is known to be made.
func (a *additions) missing(before []string, want stage, got []string) []string {
	if a.lines == nil {
		a.lines, a.names = map[string]bool{}, map[string]bool{}
	}
	names := want.outcomes.names()
	own, earlier := mentioning(names), mentioning(without(a.names, names))
	old, now, has := countUnnumbered(before), countUnnumbered(want.lines), countUnnumbered(got)
	var lines []string
	for _, line := range slices.Sorted(maps.Keys(now)) {
		count := now[line] - old[line]
		if a.lines[line] && !earlier.MatchString(line) {
			count = max(count, 1)
		}
		if count <= 0 || !want.outcomes.succeeded() && !own.MatchString(line) {
			continue
		}
		a.lines[line] = true
		if count > has[line] {
			lines = append(lines, "-"+line)
		}
	}
	maps.Copy(a.names, names)
	return lines
}

// names returns those of the interfaces of the results, their MACs, and their addresses.
func (o outcomes) names() map[string]bool {
	names := map[string]bool{}
	for _, outcome := range o {
		text, _ := strings.CutPrefix(outcome, "ok ")
		var result struct {
			Interfaces []struct{ Name, Mac string }
			IPs        []struct{ Address string }
		}
		_ = json.Unmarshal([]byte(text), &result) // of an error, or of a command
		for _, i := range result.Interfaces {
			names[i.Name], names[i.Mac] = true, true
		}
		for _, ip := range result.IPs {
			address, _, _ := strings.Cut(ip.Address, "/")
			names[address] = true
		}
	}
	delete(names, "")
	return names
}

func without(all, some map[string]bool) map[string]bool {
	rest := maps.Clone(all)
	maps.DeleteFunc(rest, func(name string, _ bool) bool { return some[name] })
	return rest
}

// mentioning matches the lines that have one of the names.
func mentioning(names map[string]bool) *regexp.Regexp {
	var quoted []string
	for name := range names {
		quoted = append(quoted, regexp.QuoteMeta(name))
	}
	if quoted == nil {
		return regexp.MustCompile(`$^`) // no line is empty
	}
	return regexp.MustCompile(`(^|[^0-9A-Za-z.:#])(` + strings.Join(quoted, "|") + `)($|[^0-9A-Za-z.#])`)
}

// countUnnumbered counts the lines, those of rules without their numbers.
func countUnnumbered(lines []string) map[string]int {
	rules, others := rulesOf(lines)
	count := map[string]int{}
	for _, line := range others {
		count[line]++
	}
	for chain, all := range rules {
		for _, r := range all {
			count[chain+" "+r.text]++
		}
	}
	return count
}

// TestADDAfterLeftovers: an ADD must make what the plugins have left, and find again.
func TestADDAfterLeftovers(t *testing.T) {
	static := static("", map[string]any{"address": "10.50.0.7/24", "gateway": "10.50.0.1"})
	masquerade := set("", map[string]any{"ipMasq": true})
	for _, tt := range []struct{ name, sabotage, want string }{
		{"nothing", "true", ""},
		{"rules", "iptables -t nat -F", "-iptables-nft-save *nat POSTROUTING -A POSTROUTING -s 10.50.0.7/32"},
		{"rule", "iptables -t nat -D POSTROUTING 1", "-iptables-nft-save *nat POSTROUTING -A POSTROUTING -s 10.50.0.7/32"},
		{"address", "ip -n sandbox addr flush dev eth0", "-inside address of eth0/24"},
		{"route", "ip -n sandbox route flush dev eth0", "-inside route of family 2"},
		{"port", "ip link set $(ls /sys/class/net/br0/brif) nomaster", "master=br0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := gatewayFamily.with([]variant{static, masquerade})
			c.Steps = []string{add, "ip -n sandbox link del eth0 || true", del, add}
			c.Sabotage, c.SabotageAfter = tt.sabotage, 3
			a := compare(t, c)
			if a.Failure != "" {
				t.Fatal(a.Failure)
			}
			if found := strings.Join(a.Differences, "\n"); found == "" != (tt.want == "") || strings.Count(found, "step 4") != len(a.Differences) || !strings.Contains(found, tt.want) {
				t.Errorf("want %q, got: %s", tt.want, found)
			}
		})
	}
}

// TestADDBesideFailure: an ADD must make the networks that succeed where another one fails.
func TestADDBesideFailure(t *testing.T) {
	t.Parallel()
	c := allocationFamily.with([]variant{joined("", another(2, `{"type":"bridge","bridge":"br2","vlan":5000}`))})
	c.Steps, c.Sabotage = []string{add, del}, "iptables -t nat -F POSTROUTING"
	a := compare(t, c)
	if len(a.Differences) != len(assignments) || !strings.Contains(a.Differences[0], "-iptables-nft-save *nat POSTROUTING -A POSTROUTING -s 10.61.0.2/32") {
		t.Errorf("lost rules are not found: %s%s", a.Failure, a.Differences)
	}
}

// TestAdditions: what an ADD made is required of a later one unless it mentions what is no more.
func TestAdditions(t *testing.T) {
	const first, second, invalid = `ok {"interfaces": [{"name": "eth0", "mac": "mac(eth0,1)"}], "ips": [{"address": "10.50.0.2/24"}]}`,
		`ok {"interfaces": [{"name": "eth0", "mac": "mac(eth0,2)"}], "ips": [{"address": "10.50.0.20/24"}]}`, "error with code 7" + textMark + "x"
	ADD := func(outcome string, lines ...string) stage {
		return stage{step: add, outcomes: outcomes{outcome}, lines: lines}
	}
	for _, tt := range []struct {
		name    string
		another string
		stages  []stage
		got     []string
		want    []string
	}{
		{"the same address", "", []stage{ADD(first, "-s 10.50.0.2/32", "chain"), ADD(first, "-s 10.50.0.2/32", "chain")}, nil, []string{"--s 10.50.0.2/32", "-chain"}},
		{"made", "", []stage{ADD(first, "chain"), ADD(first, "chain")}, []string{"chain"}, nil},
		{"another address", "", []stage{ADD(first, "-s 10.50.0.2/32", "chain"), ADD(second, "-s 10.50.0.2/32", "-s 10.50.0.20/32")}, nil, []string{"--s 10.50.0.20/32"}},
		{"another MAC", "", []stage{ADD(first, "link eth0 address=mac(eth0,1)"), ADD(second, "link eth0 address=mac(eth0,1)")}, nil, nil},
		{"left by a failure", "", []stage{ADD(invalid, "chain"), ADD(first, "chain")}, nil, nil},
		{"left of a network that fails", "", []stage{ADD(first, "chain", "eth0"), ADD(invalid, "chain", "eth0")}, nil, nil},
		{"beside a network that fails", invalid, []stage{ADD(first, "chain", "link eth0"), ADD(first, "chain", "link eth0")}, nil, []string{"-link eth0"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, before, lines := &additions{}, []string(nil), []string(nil)
			for _, s := range tt.stages {
				if tt.another != "" {
					s.outcomes = append(s.outcomes, tt.another)
				}
				lines = a.missing(before, s, tt.got)
				before = s.lines
			}
			if !slices.Equal(lines, tt.want) {
				t.Errorf("%q, want %q", lines, tt.want)
			}
		})
	}
}
