// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"fmt"
	"slices"
	"strings"

	"github.com/allocnet/allocnet/internal/netfilter"
)

// rule is a line of iptables-save.
type rule struct {
	table, chain string
	line         string
	// number is its place in the listing.
	number int
	// words are those of the line from -A on; nil for a line that could not
	// be split.
	words []string
}

func (r rule) option(names ...string) string { return netfilter.Option(r.words, names...) }

func (r rule) target() string { return r.option("-j", "-g") }

// ruleset is the part of iptables-save's output that a catalogue is about.
type ruleset struct {
	chains   []chainName
	rules    []rule
	problems []error
}

// chainName identifies a chain of a backend.
type chainName struct{ table, name string }

// parseRules reads the output of iptables-save: all chains, and the rules that
// mention one of the texts. A rule that cannot be split is kept without words
// and named in problems.
func parseRules(text string, mentions []string) ruleset {
	var s ruleset
	for line := range netfilter.Lines(text) {
		switch {
		case line.Policy != "":
			s.chains = append(s.chains, chainName{line.Table, line.Chain})
		case slices.ContainsFunc(mentions, func(text string) bool { return strings.Contains(line.Rule, text) }):
			s.add(line)
		}
	}
	return s
}

func (s *ruleset) add(line netfilter.Line) {
	r := rule{table: line.Table, chain: line.Chain, line: line.Rule, number: len(s.rules)}
	words, err := netfilter.Split(line.Rule)
	if err != nil {
		s.problems = append(s.problems, fmt.Errorf("rule %q: %w", line.Rule, err))
	} else if r.words = words; len(words) > 1 {
		r.chain = words[1]
	}
	s.rules = append(s.rules, r)
}

// mentions returns the texts of which each rule about the catalogue's chains has one.
func (c catalog) mentions() []string {
	var texts []string
	for l := range c.leaks() {
		for _, p := range l.chains {
			texts = append(texts, p.name.prefix)
		}
		for _, p := range l.rules {
			texts = append(texts, p.chain)
		}
	}
	slices.Sort(texts) // a text comes before those that it begins
	return slices.CompactFunc(texts, func(a, b string) bool { return strings.HasPrefix(b, a) })
}
