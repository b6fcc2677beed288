// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package forwarding

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// elements are those of named sets and maps. One whose elements come and go with packets is not there: what it has when
// the next packet comes is not known.
type elements map[string][]json.RawMessage

func setsOf(l listing) elements {
	sets := elements{}
	for _, o := range l.Objects {
		for _, s := range []*nftSet{o.Set, o.Map} {
			if s != nil && !bytes.Contains(s.Flags, []byte("dynamic")) && !bytes.Contains(s.Flags, []byte("timeout")) {
				sets[s.Name] = s.Elements
			}
		}
	}
	return sets
}

// of returns the elements that the right side of an expression has: one value, several, or a set.
func (sets elements) of(right json.RawMessage) ([]json.RawMessage, bool) {
	var name string
	if json.Unmarshal(right, &name) == nil && strings.HasPrefix(name, "@") {
		all, ok := sets[name[1:]]
		return all, ok
	}
	var list []json.RawMessage
	if json.Unmarshal(right, &list) == nil {
		return list, true
	}
	var set struct {
		Set json.RawMessage `json:"set"`
	}
	if json.Unmarshal(right, &set) == nil && set.Set != nil {
		return sets.of(set.Set)
	}
	return []json.RawMessage{right}, true
}

// parse reads the parts of a rule: one, or with a map of verdicts one for each of its elements.
func (n *nftRule) parse(sets elements) []rule {
	rules := []rule{{text: "a rule of the chain " + n.Chain}}
	for _, part := range n.Expression {
		for name, value := range part {
			if name == "vmap" {
				rules = sets.branch(rules, value)
				continue
			}
			for i := range rules {
				rules[i].part(name, value, sets)
			}
		}
	}
	for i := range rules {
		if r := &rules[i]; r.mayDecide && r.verdict == undecided && r.target == "" {
			r.verdict = anything
		}
	}
	return rules
}

// passing are statements that neither are conditions nor decide about a packet.
var passing = []string{"counter", "log", "comment", "mangle", "notrack", "flow", "set", "map", "dup", "ct helper", "ct timeout", "ct expectation", "secmark", "last"}

func (r *rule) part(name string, value json.RawMessage, sets elements) {
	switch name {
	case "accept":
		r.verdict = accepted
	case "drop", "reject":
		r.verdict = dropped
	case "return":
		r.verdict = returned
	case "continue":
	case "jump", "goto":
		var to struct {
			Target string `json:"target"`
		}
		if json.Unmarshal(value, &to) != nil {
			r.verdict = anything
		}
		r.target, r.isGoto = to.Target, name == "goto"
	case "match":
		r.conditions = append(r.conditions, sets.match(value))
	case "queue":
		r.verdict = anything
	case "xt":
		r.extension(value)
	default:
		if !slices.Contains(passing, name) {
			r.conditions = append(r.conditions, always(unknown))
			r.mayDecide = r.mayDecide || !slices.Contains([]string{"limit", "quota", "connlimit", "ct count"}, name)
		}
	}
}

// extension is a match or a target of iptables, which nft does not explain.
func (r *rule) extension(value json.RawMessage) {
	var x struct {
		Type string `json:"type"`
		Name string `json:"name"`
	}
	known := json.Unmarshal(value, &x) == nil
	if known && x.Type == "target" && slices.Contains(goingOn, x.Name) {
		return
	}
	r.conditions = append(r.conditions, always(unknown))
	r.mayDecide = r.mayDecide || !known || x.Type != "match"
}

// branch makes a rule for each element of a map of verdicts.
func (sets elements) branch(rules []rule, value json.RawMessage) []rule {
	var m struct {
		Key  json.RawMessage `json:"key"`
		Data json.RawMessage `json:"data"`
	}
	err := json.Unmarshal(value, &m)
	list, ok := sets.of(m.Data)
	var all []rule
	for _, r := range rules {
		if err != nil || !ok {
			r.verdict = anything
			all = append(all, r)
			continue
		}
		for _, element := range list {
			all = append(all, sets.element(r, m.Key, element))
		}
	}
	return all
}

func (sets elements) element(r rule, key, element json.RawMessage) rule {
	r.conditions = slices.Clone(r.conditions)
	var pair []json.RawMessage
	var does map[string]json.RawMessage
	if json.Unmarshal(element, &pair) != nil || len(pair) != 2 || json.Unmarshal(pair[1], &does) != nil {
		r.verdict = anything
		return r
	}
	r.conditions = append(r.conditions, anyValue(key, []json.RawMessage{pair[0]}))
	for name, value := range does {
		r.part(name, value, sets)
	}
	return r
}

// match reads a condition.
func (sets elements) match(value json.RawMessage) condition {
	var m struct {
		Op    string          `json:"op"`
		Left  json.RawMessage `json:"left"`
		Right json.RawMessage `json:"right"`
	}
	if json.Unmarshal(value, &m) != nil {
		return always(unknown)
	}
	values, ok := sets.of(m.Right)
	if !ok || !slices.Contains([]string{"==", "!=", "in"}, m.Op) {
		return both(familyOf(m.Left), always(unknown))
	}
	c := anyValue(m.Left, values)
	if m.Op == "!=" {
		if bytes.HasPrefix(m.Right, []byte("[")) {
			c = always(unknown) // of bits: all or one
		}
		c = not(c)
	}
	return both(familyOf(m.Left), c)
}

// expression is the left side of a match.
type expression struct {
	Payload struct {
		Protocol string `json:"protocol"`
		Field    string `json:"field"`
	} `json:"payload"`
	Meta struct {
		Key string `json:"key"`
	} `json:"meta"`
	CT struct {
		Key string `json:"key"`
		Dir string `json:"dir"`
	} `json:"ct"`
	Concat []json.RawMessage `json:"concat"`
}

// familyOf is the condition that a header of the network exists.
func familyOf(left json.RawMessage) condition {
	var e expression
	_ = json.Unmarshal(left, &e) // else it has no header
	if p := e.Payload.Protocol; p == "ip" || p == "ip6" {
		return conditionOf(addressFamily, []string{p})
	}
	var all = always(yes)
	for _, part := range e.Concat {
		all = both(all, familyOf(part))
	}
	return all
}

// selector is what an expression is about.
func (e *expression) selector() selector {
	s := map[string]selector{
		"meta iifname": fromInterface, "meta iif": fromInterface, "meta oifname": toInterface, "meta oif": toInterface,
		"meta l4proto": protocol, "meta nfproto": addressFamily, "meta protocol": addressFamily,
		"ip saddr": sourceAddress, "ip6 saddr": sourceAddress, "ip daddr": destinationAddress, "ip6 daddr": destinationAddress,
		"ip protocol": protocol, "ip6 nexthdr": protocol, "ct state": ctState, "ct status": ctStatus,
	}
	switch {
	case e.Payload.Field != "":
		return s[e.Payload.Protocol+" "+e.Payload.Field]
	case e.Meta.Key != "":
		return s["meta "+e.Meta.Key]
	case e.CT.Dir == "":
		return s["ct "+e.CT.Key]
	}
	return opaque
}

// anyValue is met if an expression has one of several values.
func anyValue(left json.RawMessage, values []json.RawMessage) condition {
	var e expression
	if json.Unmarshal(left, &e) != nil {
		return always(unknown)
	}
	if len(e.Concat) > 0 {
		return both(familyOf(left), anyTuple(e.Concat, values))
	}
	s := e.selector()
	if s == opaque {
		return e.transport()
	}
	var texts []string
	for _, value := range values {
		text, ok := textOf(value)
		if !ok {
			return always(unknown)
		}
		texts = append(texts, text)
	}
	return conditionOf(s, texts)
}

// transport is a condition on the header of a protocol.
func (e *expression) transport() condition {
	switch p := e.Payload.Protocol; {
	case slices.Contains([]string{"tcp", "udp", "th"}, p):
		return always(partly)
	case p != "" && slices.Contains(others, p):
		return conditionOf(protocol, []string{p})
	}
	return always(unknown)
}

// anyTuple is met if all parts of a concatenation have the values of one element.
func anyTuple(parts, values []json.RawMessage) condition {
	var all []condition
	for _, value := range values {
		var tuple struct {
			Concat []json.RawMessage `json:"concat"`
		}
		if json.Unmarshal(plain(value), &tuple) != nil || len(tuple.Concat) != len(parts) {
			return always(unknown)
		}
		c := always(yes)
		for i, part := range parts {
			c = both(c, anyValue(part, tuple.Concat[i:i+1]))
		}
		all = append(all, c)
	}
	return anyOf(all)
}

// plain is the value of an element that has a comment or a counter, too.
func plain(value json.RawMessage) json.RawMessage {
	var e struct {
		Elem struct {
			Val json.RawMessage `json:"val"`
		} `json:"elem"`
	}
	if json.Unmarshal(value, &e) == nil && e.Elem.Val != nil {
		return e.Elem.Val
	}
	return value
}

// textOf writes a value as nft does: a name, a number, a prefix, or a range.
func textOf(value json.RawMessage) (string, bool) {
	value = plain(value)
	var text string
	if json.Unmarshal(value, &text) == nil {
		return text, !strings.HasPrefix(text, "@")
	}
	var number json.Number
	if json.Unmarshal(value, &number) == nil && number != "" {
		return number.String(), true
	}
	var v struct {
		Prefix struct {
			Addr string `json:"addr"`
			Len  int    `json:"len"`
		} `json:"prefix"`
		Range []string `json:"range"`
	}
	switch err := json.Unmarshal(value, &v); {
	case err != nil:
		return "", false
	case v.Prefix.Addr != "":
		return fmt.Sprintf("%s/%d", v.Prefix.Addr, v.Prefix.Len), true
	case len(v.Range) == 2:
		return v.Range[0] + "-" + v.Range[1], true
	}
	return "", false
}
