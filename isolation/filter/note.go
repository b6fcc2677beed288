// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package filter

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/allocnet/allocnet/internal/netfilter"
	"github.com/allocnet/allocnet/isolation"
)

// kindsSet is the set that notes for each chain of rules which attachments have it, by the names of one of them: a line about the first attachment of another
// kind gets into the chains that there are, and what is on record of thousands of attachments need not be read for that.
const kindsSet = "kinds"

// names are those of an attachment by which rules select it. Without any, the chain is that of addresses.
type names struct{ Namespace, Job, Group, Network string }

func namesOf(m *isolation.Member) names { return names{m.Namespace, m.Job, m.Group, m.Network} }

// text is what nft can show and load again.
func (n names) text() string {
	return strings.Join([]string{url.QueryEscape(n.Namespace), url.QueryEscape(n.Job), url.QueryEscape(n.Group), url.QueryEscape(n.Network)}, "/")
}

// readNames returns the names of a text; nil: it is of none.
func readNames(text string) *names {
	parts := strings.Split(text, "/")
	if len(parts) != 4 {
		return nil
	}
	for i := range parts {
		var err error
		if parts[i], err = url.QueryUnescape(parts[i]); err != nil {
			return nil
		}
	}
	return &names{parts[0], parts[1], parts[2], parts[3]}
}

func (n names) member() isolation.Member {
	return isolation.Member{Namespace: n.Namespace, Job: n.Job, Group: n.Group, Network: n.Network}
}

// mostParts is how many parts a note may have: each is a comment, and they are in the order of their keys. A longer one is left out, and can be read by
// none.
const mostParts = 256

// note notes for a chain, unless there is a note already, who has it.
func (t *table) note(c class, of names) {
	kinds := t.sets[kindsSet]
	if kinds == nil || c.chain == "" {
		return
	}
	if _, isNoted := kinds.elements[identity(netfilter.Element{Key: noteKey(c.chain, 0)})]; isNoted {
		return
	}
	rest := of.text()
	if len(rest) > mostParts*mostComment {
		rest = "too long"
	}
	for part := 0; rest != ""; part++ {
		comment := shortened(rest)
		rest = rest[len(comment):]
		t.put(kindsSet, netfilter.Element{Key: noteKey(c.chain, part), Comment: comment})
	}
}

// noteKey is the key of a part of the note for a chain.
func noteKey(chain string, part int) []byte {
	kind, sum, _ := strings.Cut(chain, "-")
	return netfilter.LinkKey(fmt.Sprintf("%s%s%02x", kind[:1], sum, part))
}

// chainOf is the chain that a note is for, and ok is false if it is none.
func chainOf(key []byte) (chain string, ok bool) {
	text := strings.TrimRight(string(key), "\x00")
	if len(text) < 3 {
		return "", false
	}
	for _, prefix := range []string{allowPrefix, egressPrefix} {
		if text[:1] == prefix[:1] {
			return prefix + text[1:len(text)-2], true
		}
	}
	return "", false
}

// notesIn returns the notes for chains that the set has; nil: one that cannot be read.
func notesIn(elements []netfilter.Element) map[string]*names {
	texts := map[string]string{}
	for _, e := range slices.SortedFunc(slices.Values(elements), func(a, b netfilter.Element) int { return strings.Compare(string(a.Key), string(b.Key)) }) {
		if chain, ok := chainOf(e.Key); ok {
			texts[chain] += e.Comment
		}
	}
	all := make(map[string]*names, len(texts))
	for chain, text := range texts {
		all[chain] = readNames(text)
	}
	return all
}

// lacksNote tells whether a chain of rules that is there has no note.
func (l *listing) lacksNote(noted map[string]*names) bool {
	for chain := range l.chains {
		if _, ok := noted[chain]; isOfRules(chain) && !ok {
			return true
		}
	}
	return false
}

// isOfRules tells whether a chain has rules of the operator.
func isOfRules(chain string) bool {
	return strings.HasPrefix(chain, allowPrefix) || strings.HasPrefix(chain, egressPrefix)
}
