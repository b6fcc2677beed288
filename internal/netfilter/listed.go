// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netfilter

import (
	"bytes"
	"encoding/binary"
	"iter"

	"github.com/google/nftables/userdata"
	"golang.org/x/sys/unix"
)

// ListedRule is a rule as the kernel lists it. Only what is looked at is decoded: a chain may
// have thousands.
type ListedRule struct {
	// Handle identifies the rule in its table until the table is made anew.
	Handle          uint64
	exprs, userdata []byte
}

// nfgenmsgSize is the size of the header in front of the attributes of a message.
const nfgenmsgSize = 4

func newListedRule(payload []byte) ListedRule {
	var rule ListedRule
	for kind, value := range attributes(payload[min(nfgenmsgSize, len(payload)):]) {
		switch kind &^ unix.NLA_F_NESTED {
		case unix.NFTA_RULE_HANDLE:
			if len(value) == 8 {
				rule.Handle = binary.BigEndian.Uint64(value)
			}
		case unix.NFTA_RULE_EXPRESSIONS:
			rule.exprs = value
		case unix.NFTA_RULE_USERDATA:
			rule.userdata = value
		}
	}
	return rule
}

// Comment returns the rule's comment, empty if it has none.
func (r ListedRule) Comment() string {
	if len(r.userdata) < 2 || len(r.userdata) < 2+int(r.userdata[1]) { // userdata.Get does not check
		return ""
	}
	comment := userdata.Get(r.userdata, userdata.TypeComment)
	return string(bytes.TrimSuffix(comment, []byte{0}))
}

// Mentions tells whether the rule has the comment, one of nft or of an extension of iptables.
func (r ListedRule) Mentions(comment string) bool {
	text := append([]byte(comment), 0)
	return bytes.Contains(r.exprs, text) || bytes.Contains(r.userdata, text)
}

// SameRules tells whether a chain has exactly the rules.
func SameRules(listed []ListedRule, rules []Rule, family Family) bool {
	if len(listed) != len(rules) {
		return false
	}
	for i, rule := range rules {
		b := Batch{}
		want := b.nested(unix.NFTA_RULE_EXPRESSIONS, b.expressions(family, rule.Exprs)...)
		if !sameExpressions(listed[i].exprs, want.Data) {
			return false
		}
	}
	return true
}

// sameExpressions compares the expressions of a rule with those that were sent for it.
func sameExpressions(listed, sent []byte) bool {
	var elements [][]byte
	for _, element := range attributes(listed) {
		elements = append(elements, element)
	}
	for _, element := range attributes(sent) {
		if len(elements) == 0 || !includes(elements[0], element) {
			return false
		}
		elements = elements[1:]
	}
	return len(elements) == 0
}

// includes tells whether the kernel lists all attributes that were sent. It adds others, and
// has an order of its own.
func includes(listed, sent []byte) bool {
	values := map[uint16][]byte{}
	for kind, value := range attributes(listed) {
		values[kind&^unix.NLA_F_NESTED] = value
	}
	for kind, value := range attributes(sent) {
		other, ok := values[kind&^unix.NLA_F_NESTED]
		if kind&unix.NLA_F_NESTED != 0 {
			ok = ok && includes(other, value)
		} else {
			ok = ok && bytes.Equal(other, value)
		}
		if !ok {
			return false
		}
	}
	return true
}

// attributes yields the netlink attributes of a message, with their flags.
func attributes(data []byte) iter.Seq2[uint16, []byte] {
	return func(yield func(uint16, []byte) bool) {
		for len(data) >= unix.NLA_HDRLEN {
			length := int(binary.NativeEndian.Uint16(data))
			if length < unix.NLA_HDRLEN || length > len(data) {
				return
			}
			if !yield(binary.NativeEndian.Uint16(data[2:]), data[unix.NLA_HDRLEN:length]) {
				return
			}
			data = data[min((length+unix.NLA_ALIGNTO-1)&^(unix.NLA_ALIGNTO-1), len(data)):]
		}
	}
}

// Listings are the rules of chains as they were listed for one batch: attachments share
// the chains that they look through.
type Listings struct {
	*Socket

	rules map[string][]ListedRule
	// generation is that of nftables before the first listing; 0 if it is unknown.
	generation uint32
}

// Listings returns a set of listings that is empty so far.
func (s *Socket) Listings() *Listings { return &Listings{Socket: s} }

// Of returns the rules of a chain, none if there is no such chain.
func (l *Listings) Of(t *Table, chain string) ([]ListedRule, error) {
	l.begin()
	key := Place(t, chain)
	if rules, ok := l.rules[key]; ok {
		return rules, nil
	}
	rules, err := l.List(t, chain)
	l.rules[key] = rules
	return rules, err
}

// Rule returns a rule of a chain by its handle; ok is false if there is none, or it is not known.
func (l *Listings) Rule(t *Table, chain string, handle uint64) (rule ListedRule, ok bool) {
	l.begin()
	return l.rule(t, chain, handle)
}

// begin notes the generation before the first listing.
func (l *Listings) begin() {
	if l.rules == nil {
		l.rules = map[string][]ListedRule{}
		l.generation, _ = l.Generation() // without it a batch is not guarded
	}
}

// Place names a chain of this network namespace: FAMILY TABLE CHAIN.
func Place(t *Table, chain string) string { return t.key() + " " + chain }
