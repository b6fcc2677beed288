// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package netfilter is how rules of the host are listed and changed.
//
// Of iptables it reads what iptables-save prints, and has iptables-restore execute transactions. Both kinds of
// iptables share the text (iptables-save(8), iptables/xshared.c).
//
// It speaks netlink to nftables, with the expressions of github.com/google/nftables. To list a chain takes 0.2 ms,
// and 3 ms with the program nft, which need not be installed; with 2,000 rules 7 ms and 40. The connection of github.com/google/nftables
// is not used: it has no comments on tables, decodes whole rules, does not tell whether a listing is consistent, and sends
// batches whose handles may be of before a reload. Package cluster/forwarding
// asks nft, which names each expression of rules that anyone has made.
package netfilter

import (
	"errors"
	"iter"
	"slices"
	"strings"
)

// Line is a chain or a rule of a listing.
type Line struct {
	Table, Chain string
	// Policy is that of a chain; "-" for one that is not built in. Empty: the line is a rule.
	Policy string
	// Rule is a rule from -A on, as it was printed.
	Rule string
}

// Lines returns the chains and rules of a listing in their order. What is neither is left out.
func Lines(listing string) iter.Seq[Line] {
	return func(yield func(Line) bool) {
		table := ""
		for text := range strings.Lines(listing) {
			text = strings.TrimSpace(text)
			if name, ok := strings.CutPrefix(text, "*"); ok {
				table = name
				continue
			}
			if line, ok := read(text); ok {
				line.Table = table
				if !yield(line) {
					return
				}
			}
		}
	}
}

func read(text string) (line Line, ok bool) {
	if declared, ok := strings.CutPrefix(text, ":"); ok {
		words := strings.Fields(declared)
		if len(words) < 2 {
			return Line{}, false
		}
		return Line{Chain: words[0], Policy: words[1]}, true
	}
	rule, ok := strings.CutPrefix(text, "-A ")
	chain, _, _ := strings.Cut(strings.TrimLeft(rule, " "), " ")
	return Line{Chain: chain, Rule: text}, ok
}

// Unlisted returns the tables that iptables-save could not show, because they have rules of nft that iptables does
// not know. It has exited with 0.
func Unlisted(listing string) (tables []string) {
	for text := range strings.Lines(listing) {
		if rest, ok := strings.CutPrefix(text, "# Table `"); ok {
			if name, why, _ := strings.Cut(rest, "'"); strings.HasPrefix(why, " is incompatible") {
				tables = append(tables, name)
			}
		}
	}
	return tables
}

// Option returns the word of a rule after the first of the names.
func Option(words []string, names ...string) string {
	for i, word := range words[:max(0, len(words)-1)] {
		if slices.Contains(names, word) {
			return words[i+1]
		}
	}
	return ""
}

// Split returns the words of a rule as iptables-restore reads them: it splits at blanks, except in double quotes,
// where a backslash takes the next character as it is. A quote that is not closed is an error.
func Split(rule string) ([]string, error) {
	var words []string
	var word strings.Builder
	quoted, escaped, inWord := false, false, false
	for _, c := range []byte(rule) { // a comment need not be UTF-8
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
		return nil, errors.New("a quote is not closed")
	}
	if inWord {
		words = append(words, word.String())
	}
	return words, nil
}
