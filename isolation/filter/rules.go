// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package filter

import (
	"slices"
	"sync"

	"github.com/allocnet/allocnet/isolation"
)

// Rules are those of a host, which are read when they are needed: an attachment needs few of thousands. The zero value has none.
type Rules struct {
	// Sum is that of all, as Sum; empty: it is not known yet.
	Sum string
	// Allow and Egress are how many there are.
	Allow, Egress int
	// Whole returns all, which do not change.
	Whole func() (isolation.Rules, error)
	// Some returns those whose selectors are wanted, unless all were read already; nil: Whole does.
	Some func(isWanted func(from, to *isolation.Selector) bool) (some isolation.Rules, isAll bool, err error)
}

// RulesOf are rules that were read.
func RulesOf(all isolation.Rules) Rules {
	return Rules{Allow: len(all.Allow), Egress: len(all.Egress), Whole: func() (isolation.Rules, error) { return all, nil }}
}

// All returns all of them.
func (of Rules) All() (isolation.Rules, error) {
	if of.Whole == nil {
		return isolation.Rules{}, nil
	}
	return of.Whole()
}

// about prepares those that an attachment needs.
func (of Rules) about(m *Member) (*ruleset, error) {
	whole := func() (*ruleset, error) {
		all, err := of.All()
		if err != nil {
			return nil, err
		}
		return prepare(all, of.Sum, false), nil
	}
	if of.Some == nil {
		return whole()
	}
	isOf := func(s *isolation.Selector) bool { return len(s.CIDRs) == 0 && !s.Host && selects(s, &m.Member) } // also those of all
	some, isAll, err := of.Some(func(from, to *isolation.Selector) bool { return isOf(from) || isOf(to) })
	if err != nil || isAll {
		return whole()
	}
	r := newRuleset(some, of.Sum)
	r.whole = whole
	return r, nil
}

// ruleset are the rules of a host, prepared for attachments.
type ruleset struct {
	isolation.Rules

	// sum is that of all rules.
	sum string
	// whole returns that of all rules, if these are those that one attachment needs; nil: it is that.
	whole func() (*ruleset, error)
	// matched finds the selectors with patterns that packets are matched with: each has a set. to finds rules allow, from rules egress.
	matched, to, from *index
	isBuilt           bool
	mu                sync.Mutex // guards latest
	// latest are the kinds of the attachments that were there last: an agent asks for all of them each time.
	latest kinds
	// reached are the classes of rules allow that select their destination by its address.
	reached func() []class
}

// recent are the rules that were prepared last: a process that attaches many has the same ones for all.
var recent struct {
	sync.Mutex
	*ruleset
}

// prepare prepares rules, which do not change after that, for one attachment or for many. sum is theirs; empty: it is not known.
func prepare(rules isolation.Rules, sum string, forMany bool) *ruleset {
	recent.Lock()
	defer recent.Unlock()
	if r := recent.ruleset; r != nil && isSame(r.Allow, rules.Allow) && isSame(r.Egress, rules.Egress) && (r.isBuilt || !forMany) {
		return r
	}
	r := newRuleset(rules, sum)
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

func newRuleset(rules isolation.Rules, known string) *ruleset {
	r := &ruleset{Rules: rules, sum: known}
	var to, from, matched []*isolation.Selector
	for i := range rules.Allow {
		a := &rules.Allow[i]
		to, matched = append(to, &a.To), append(matched, &a.From)
	}
	for i := range rules.Egress {
		e := &rules.Egress[i]
		from, matched = append(from, &e.From), append(matched, &e.To)
	}
	if r.sum == "" {
		all, _ := rules.AppendBinary(make([]byte, 0, textSize*(len(to)+len(from)))) // it does not fail
		r.sum = Sum(all)
	}
	isOfMembers := func(s *isolation.Selector) bool { return hasPatterns(s) || selectsAll(s) }
	r.to, r.from = &index{selectors: to, isWanted: hasPatterns}, &index{selectors: from, isWanted: isOfMembers}
	r.matched, r.reached = &index{selectors: matched, isWanted: hasPatterns}, sync.OnceValue(r.reachedClasses)
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

// class are rules that a chain has; the zero value has none.
type class struct {
	rules []int
	chain string
}

// kind is what rules have for attachments that they do not tell from one another.
type kind struct {
	// allow are the rules of which it is a destination by its patterns, and egress those of which it is the source.
	allow, egress class
	// sets are those of the selectors that select it, without their family.
	sets      []string
	selectors []*isolation.Selector
	names     names
}

func (r *ruleset) kindOf(m *isolation.Member) *kind {
	k := &kind{allow: r.allowClass(r.to.of(m)), egress: r.egressClass(r.from.of(m)), names: namesOf(m)}
	for _, i := range r.matched.of(m) {
		s := r.matched.selectors[i]
		if set := setOf(s); !slices.Contains(k.sets, set) {
			k.sets, k.selectors = append(k.sets, set), append(k.selectors, s)
		}
	}
	return k
}

// matchedBy returns the rules allow, and the rules egress, that match packets with one of the selectors.
func (r *ruleset) matchedBy(selectors []*isolation.Selector) (allow, egress []int) {
	is := func(s *isolation.Selector) bool {
		return hasPatterns(s) && slices.ContainsFunc(selectors, func(other *isolation.Selector) bool {
			return s.Job == other.Job && s.Namespace == other.Namespace && s.Group == other.Group && s.Network == other.Network
		})
	}
	for i := range r.Allow {
		if is(&r.Allow[i].From) {
			allow = append(allow, i)
		}
	}
	for i := range r.Egress {
		if is(&r.Egress[i].To) {
			egress = append(egress, i)
		}
	}
	return allow, egress
}

// kinds are those of many attachments, by what rules tell them from one another by.
type kinds map[string]*kind

func (all kinds) of(r *ruleset, m *isolation.Member) *kind {
	key := keyOf(m)
	if all[key] == nil {
		all[key] = r.kindOf(m)
	}
	return all[key]
}

func keyOf(m *isolation.Member) string {
	return string(appendText(nil, m.Namespace, m.Job, m.Group, m.Network))
}

// kindsOf returns those of all attachments. They do not change.
func (r *ruleset) kindsOf(members []Member) kinds {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := kinds{}
	for i := range members {
		m := &members[i].Member
		if key := keyOf(m); all[key] == nil {
			all[key] = r.latest[key]
			all.of(r, m)
		}
	}
	r.latest = all
	return all
}

// Prefixes of the names of chains of rules.
const (
	allowPrefix  = "allow-"
	egressPrefix = "egress-"
)

func (r *ruleset) allowClass(rules []int) class {
	return classOf(allowPrefix, rules, func(all []byte, i int) []byte {
		a := &r.Allow[i]
		return appendPorts(appendSelector(appendSelector(appendText(all, "allow", a.Name), &a.From), &a.To), a.Ports)
	})
}

func (r *ruleset) egressClass(rules []int) class {
	return classOf(egressPrefix, rules, func(all []byte, i int) []byte {
		e := &r.Egress[i]
		all = appendPorts(appendSelector(appendSelector(appendText(all, "egress", e.Name), &e.From), &e.To), e.Ports)
		if e.DNS {
			all = append(all, "dns\n"...)
		}
		return all
	})
}

func classOf(prefix string, rules []int, appendRule func([]byte, int) []byte) class {
	if len(rules) == 0 {
		return class{}
	}
	var all []byte
	for _, i := range rules {
		all = appendRule(all, i)
	}
	return class{rules, prefix + Sum(all)}
}

// ranges are those of the addresses to which rules allow by these.
func (r *ruleset) ranges(v *ip) reach {
	selectors := make([]*isolation.Selector, len(r.Allow))
	for i := range r.Allow {
		selectors[i] = &r.Allow[i].To
	}
	return v.reachOf(selectors)
}

// reachedClasses are those of rules allow that select their destination by its address.
func (r *ruleset) reachedClasses() (all []class) {
	for _, v := range ips {
		for _, part := range r.ranges(v) {
			if c := r.allowClass(part.rules); c.chain != "" {
				all = append(all, c)
			}
		}
	}
	return all
}
