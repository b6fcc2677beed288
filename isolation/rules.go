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
	text := strings.Join(append([]string{e.To.String()}, textsOf(e.Ports)...), " ")
	if e.DNS && !slices.Equal(e.Ports, dnsPorts) {
		text += ", " + Egress{Ports: dnsPorts}.String()
	}
	return text
}
