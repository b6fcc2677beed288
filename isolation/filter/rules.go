// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package filter

import (
	"slices"
	"sync"

	"github.com/allocnet/allocnet/isolation"
)

// ruleset are the rules of a host, prepared for attachments.
type ruleset struct {
	isolation.Rules

	// sum is that of all rules.
	sum string
	// matched finds the selectors with patterns that packets are matched with: each has a set. to finds rules allow, from rules egress.
	matched, to, from *index
	isBuilt           bool
}

// recent are the rules that were prepared last: a process that attaches many has the same ones for all.
var recent struct {
	sync.Mutex
	*ruleset
}

// prepare prepares rules, which do not change after that: for one attachment, or for many.
func prepare(rules isolation.Rules, forMany bool) *ruleset {
	recent.Lock()
	defer recent.Unlock()
	if r := recent.ruleset; r != nil && isSame(r.Allow, rules.Allow) && isSame(r.Egress, rules.Egress) && (r.isBuilt || !forMany) {
		return r
	}
	r := newRuleset(rules)
	if forMany {
		r.build()
	}
	recent.ruleset = r
	return r
}

// isSame tells whether two lists are one.
func isSame[T any](a, b []T) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// textSize is more than most rules have as a text.
const textSize = 200

func newRuleset(rules isolation.Rules) *ruleset {
	r := &ruleset{Rules: rules}
	var to, from, matched []*isolation.Selector
	for i := range rules.Allow {
		a := &rules.Allow[i]
		to, matched = append(to, &a.To), append(matched, &a.From)
	}
	for i := range rules.Egress {
		e := &rules.Egress[i]
		from, matched = append(from, &e.From), append(matched, &e.To)
	}
	all, _ := rules.AppendBinary(make([]byte, 0, textSize*(len(to)+len(from)))) // it does not fail
	isOfMembers := func(s *isolation.Selector) bool { return hasPatterns(s) || selectsAll(s) }
	r.sum, r.to, r.from = sum(all), &index{selectors: to, isWanted: hasPatterns}, &index{selectors: from, isWanted: isOfMembers}
	r.matched = &index{selectors: matched, isWanted: hasPatterns}
	return r
}

// build prepares them for many attachments.
func (r *ruleset) build() {
	var distinct []*isolation.Selector
	seen := map[string]bool{}
	for _, s := range r.matched.selectors {
		if key := string(appendSelector(nil, s)); !seen[key] {
			seen[key] = true
			distinct = append(distinct, s)
		}
	}
	r.matched.selectors, r.isBuilt = distinct, true
	for _, x := range []*index{r.matched, r.to, r.from} {
		x.build()
	}
}

// kind is what rules have for attachments that they do not tell from one another.
type kind struct {
	// allow are the rules of which it is a destination by its patterns, and egress those of which it is the source.
	allow, egress []int
	// sets are those of the selectors that select it, without their family.
	sets []string
}

func (r *ruleset) kindOf(m *isolation.Member) *kind {
	k := &kind{allow: r.to.of(m), egress: r.from.of(m)}
	for _, i := range r.matched.of(m) {
		if set := setOf(r.matched.selectors[i]); !slices.Contains(k.sets, set) {
			k.sets = append(k.sets, set)
		}
	}
	return k
}

// kinds are those of many attachments, by what rules tell them from one another by.
type kinds map[string]*kind

func (all kinds) of(r *ruleset, m *isolation.Member) *kind {
	key := string(appendText(nil, m.Namespace, m.Job, m.Group, m.Network))
	if all[key] == nil {
		all[key] = r.kindOf(m)
	}
	return all[key]
}

// allowClass is the name of the chain of rules allow, and egressClass that of rules egress; empty without rules.
func (r *ruleset) allowClass(rules []int) string {
	return class("allow-", rules, func(all []byte, i int) []byte {
		a := &r.Allow[i]
		return appendPorts(appendSelector(appendSelector(appendText(all, "allow", a.Name), &a.From), &a.To), a.Ports)
	})
}

func (r *ruleset) egressClass(rules []int) string {
	return class("egress-", rules, func(all []byte, i int) []byte {
		e := &r.Egress[i]
		all = appendPorts(appendSelector(appendSelector(appendText(all, "egress", e.Name), &e.From), &e.To), e.Ports)
		if e.DNS {
			all = append(all, "dns\n"...)
		}
		return all
	})
}

func class(prefix string, rules []int, appendRule func([]byte, int) []byte) string {
	if len(rules) == 0 {
		return ""
	}
	var all []byte
	for _, i := range rules {
		all = appendRule(all, i)
	}
	return prefix + sum(all)
}
