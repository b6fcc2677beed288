// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hostmap

import (
	"strings"

	"github.com/allocnet/allocnet/internal/termtext"
)

const gap = "  "

type columns struct {
	iface, network int
	// values is the width of addresses and ports before the phase; 0: they follow on lines
	// of their own.
	values int
}

// longestInterface is that of the kernel. A record may have anything.
const longestInterface = 15

// longestName is how much of a network's name a terminal shows.
const longestName = 20

// measure returns widths with which no line is longer than the terminal.
func (p *picture) measure() columns {
	var c columns
	phase, word, whole := 0, 1, 1
	for _, n := range p.Networks {
		c.network = max(c.network, termtext.Width(termtext.Printable(n.Name)))
	}
	for _, a := range p.Allocations {
		for _, n := range a.Attachments {
			c.iface = max(c.iface, termtext.Width(termtext.Printable(n.Interface)))
			phase = max(phase, len(n.Phase))
			values := printables(n.values())
			whole = max(whole, termtext.Width(strings.Join(values, gap)))
			for _, v := range values {
				word = max(word, termtext.Width(v))
			}
		}
	}
	if p.Columns == 0 {
		c.values = whole
		return c
	}
	c.iface, c.network = min(c.iface, longestInterface), min(c.network, longestName)
	free := p.Columns - p.railsWidth() - c.iface - c.network - phase - 3*len(gap)
	if free < 0 { // the name is what other lines have as well
		c.network = max(4, c.network+free)
	}
	if free >= word {
		c.values = min(free, whole)
	}
	return c
}
