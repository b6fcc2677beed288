// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package filter

import (
	"github.com/allocnet/allocnet/isolation"
)

// ruleset are the rules of a host, prepared for attachments.
type ruleset struct {
	isolation.Rules

	// sum is that of all rules.
	sum string
	// allowTexts and egressTexts have what is in the rules, one text for each.
	allowTexts, egressTexts [][]byte
	// matched finds the selectors with patterns that packets are matched with: each has a set. to finds rules allow, from rules egress.
	matched, to, from *index
}

func prepare(rules isolation.Rules) *ruleset {
	r := &ruleset{Rules: rules}
	var all []byte
	var to, from, matched []*isolation.Selector
	seen := map[string]bool{}
	match := func(s *isolation.Selector) {
		if key := string(appendSelector(nil, s)); hasPatterns(s) && !seen[key] {
			seen[key] = true
			matched = append(matched, s)
		}
	}
	for i := range rules.Allow {
		a := &rules.Allow[i]
		begin := len(all)
		all = appendPorts(appendSelector(appendSelector(appendText(all, "allow", a.Name), &a.From), &a.To), a.Ports)
		r.allowTexts = append(r.allowTexts, all[begin:])
		to = append(to, &a.To)
		match(&a.From)
	}
	for i := range rules.Egress {
		e := &rules.Egress[i]
		begin := len(all)
		all = appendPorts(appendSelector(appendSelector(appendText(all, "egress", e.Name), &e.From), &e.To), e.Ports)
		if e.DNS {
			all = append(all, "dns\n"...)
		}
		r.egressTexts = append(r.egressTexts, all[begin:])
		from = append(from, &e.From)
		match(&e.To)
	}
	r.sum, r.to, r.from, r.matched = sum(all), newIndex(to, false), newIndex(from, true), newIndex(matched, false)
	return r
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
		k.sets = append(k.sets, setOf(r.matched.selectors[i]))
	}
	return k
}

// allowClass is the name of the chain of rules allow, and egressClass that of rules egress; empty without rules.
func (r *ruleset) allowClass(rules []int) string  { return class("allow-", r.allowTexts, rules) }
func (r *ruleset) egressClass(rules []int) string { return class("egress-", r.egressTexts, rules) }

func class(prefix string, texts [][]byte, rules []int) string {
	if len(rules) == 0 {
		return ""
	}
	var all []byte
	for _, i := range rules {
		all = append(all, texts[i]...)
	}
	return prefix + sum(all)
}
