// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package isolation

// Rules are those of a host. The zero value has none.
type Rules struct {
	// File has them.
	File   string
	Allow  []Allow
	Egress []Egress
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
