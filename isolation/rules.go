// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package isolation

import (
	"slices"
	"strings"
)

// Rules are those of a host. The zero value has none.
type Rules struct {
	// File has them.
	File   string
	Allow  []Allow
	Egress []Egress
}

// Names returns those of all rules.
func (r Rules) Names() (names []string) {
	for _, a := range r.Allow {
		names = append(names, a.Name)
	}
	for _, e := range r.Egress {
		names = append(names, e.Name)
	}
	return names
}

// Allow lets flows pass that levels deny.
type Allow struct {
	// Name is unique among rules, and Line that of the block in the file.
	Name string
	Line int
	From Selector
	To   Selector
	// Ports are those of the destination. Empty: all protocols.
	Ports []Ports
}

// Egress limits what attachments reach to what the rules egress that select them have.
type Egress struct {
	Name string
	Line int
	// From selects attachments.
	From Selector
	To   Selector
	// Ports are those of the destination. Empty: all protocols.
	Ports []Ports
	// DNS is whether port 53 of UDP and TCP is reached as well, wherever it is.
	DNS bool
}

// String is what the rule has, in words.
func (e Egress) String() string {
	text := phrase(e.To, e.Ports)
	if e.DNS && !slices.Equal(e.Ports, dnsPorts) {
		text += ", " + phrase(Selector{}, dnsPorts)
	}
	return text
}

// phrase is what a selector selects of ports, as a job would write it: ports by themselves are those of everything.
func phrase(of Selector, ports []Ports) string {
	words := textsOf(ports)
	if !of.selectsAll() || len(words) == 0 {
		words = slices.Insert(words, 0, of.String())
	}
	return strings.Join(words, " ")
}
