// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package differential

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"testing"
)

// rule is a rule with its number in its chain.
type rule struct {
	number int
	text   string
}

// numbered matches the line of a rule: its chain, its number, and the rule.
var numbered = regexp.MustCompile(`^((?:ip6?tables-[a-z]+-save|nft) .*?) (\d+) (.*)$`)

// aligned returns the lines of got with the numbers that the rules have in want. A chain that lacks
// rules of want has the others nearer to its beginning, and in the same order. A rule that want does
// not have behind the one before it gets the number 0, which is in no snapshot.
func aligned(want, got []string) []string {
	chains, _ := rulesOf(want)
	rules, lines := rulesOf(got)
	for chain, all := range rules {
		behind := chains[chain]
		for _, r := range all {
			number := 0
			if i := slices.IndexFunc(behind, func(other rule) bool { return other.text == r.text }); i >= 0 {
				number, behind = behind[i].number, behind[i+1:]
			}
			lines = append(lines, fmt.Sprintf("%s %d %s", chain, number, r.text))
		}
	}
	return lines
}

// rulesOf returns the rules of each chain in their order, and the lines that are no rules.
func rulesOf(lines []string) (map[string][]rule, []string) {
	rules, others := map[string][]rule{}, []string(nil)
	for _, line := range lines {
		m := numbered.FindStringSubmatch(line)
		if m == nil {
			others = append(others, line)
			continue
		}
		number, _ := strconv.Atoi(m[2]) // digits
		rules[m[1]] = append(rules[m[1]], rule{number, m[3]})
	}
	for _, all := range rules {
		slices.SortFunc(all, func(a, b rule) int { return cmp.Compare(a.number, b.number) })
	}
	return rules, others
}

// chain returns the lines of a chain of iptables.
func chain(rules ...string) []string {
	var lines []string
	for i, rule := range rules {
		lines = append(lines, fmt.Sprintf("iptables-nft-save *nat POSTROUTING %d -A POSTROUTING %s", i+1, rule))
	}
	return lines
}

// TestOrder: a chain that lacks rules has the others at smaller numbers, in the same order.
func TestOrder(t *testing.T) {
	many := []string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "a", "b"}
	for _, tt := range []struct {
		name    string
		got     []string
		cleaner bool
		same    bool
	}{
		{"less", many[1:], true, true},
		{"less in the middle", slices.Concat(many[:2], many[4:]), true, true},
		{"less where all must be left", many[1:], false, false},
		{"another order", slices.Concat(many[1:3], many[:1], many[3:]), true, false},
		{"another order at once", []string{"1", "0"}, true, false},
		{"another rule", []string{"1", "x", "2"}, true, false},
		{"a rule twice", []string{"1", "1"}, true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if d := difference(chain(many...), chain(tt.got...), tt.cleaner); len(d) == 0 != tt.same {
				t.Errorf("difference: %q", d)
			}
		})
	}
}
