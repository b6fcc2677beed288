// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cleanup

import (
	"fmt"
	"slices"
	"strings"
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

// option returns the word after the first of the names.
func (r rule) option(names ...string) string {
	for i, word := range r.words[:max(0, len(r.words)-1)] {
		if slices.Contains(names, word) {
			return r.words[i+1]
		}
	}
	return ""
}

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
	table := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "*"):
			table = line[1:]
		case strings.HasPrefix(line, ":"):
			name, _, _ := strings.Cut(line[1:], " ")
			s.chains = append(s.chains, chainName{table, name})
		case strings.HasPrefix(line, "-A ") && containsAny(line, mentions):
			s.add(table, line)
		}
	}
	return s
}

func containsAny(line string, texts []string) bool {
	return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(line, text) })
}

func (s *ruleset) add(table, line string) {
	r := rule{table: table, line: line, number: len(s.rules)}
	if fields := strings.Fields(line); len(fields) > 1 {
		r.chain = fields[1]
	}
	words, err := SplitRule(line)
	if err != nil {
		s.problems = append(s.problems, fmt.Errorf("rule %q: %w", line, err))
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

// SplitRule splits a line of iptables-save as iptables-restore does: at blanks, except in
// double quotes, where a backslash takes the next character as it is.
func SplitRule(line string) ([]string, error) {
	var words []string
	var word strings.Builder
	quoted, escaped, inWord := false, false, false
	for _, c := range []byte(line) { // a comment need not be UTF-8
		switch {
		case escaped:
			word.WriteByte(c)
			escaped = false
		case c == '\\' && quoted:
			escaped = true
		case c == '"':
			quoted, inWord = !quoted, true
		case (c == ' ' || c == '\t') && !quoted:
			if inWord {
				words = append(words, word.String())
			}
			word.Reset()
			inWord = false
		default:
			word.WriteByte(c)
			inWord = true
		}
	}
	if quoted {
		return nil, fmt.Errorf("a quote is not closed")
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, nil
}
