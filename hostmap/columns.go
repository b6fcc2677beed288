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

// widest are the greatest widths of a map: of names, and of the values of an attachment, by themselves and in one line.
type widest struct{ network, iface, phase, value, values int }

func (m *Map) widest() widest {
	w := widest{value: 1, values: 1}
	for _, n := range m.Networks {
		w.network = max(w.network, columnsOf(n.Name))
	}
	for _, a := range m.Allocations {
		for _, n := range a.Attachments {
			w.iface, w.phase = max(w.iface, columnsOf(n.Interface)), max(w.phase, len(n.Phase))
			values := printables(n.values())
			w.values = max(w.values, termtext.Width(strings.Join(values, gap)))
			for _, v := range values {
				w.value = max(w.value, termtext.Width(v))
			}
		}
	}
	return w
}

// measure returns widths with which no line is longer than the terminal.
func (p *picture) measure() columns {
	w := p.widest()
	c := columns{w.iface, w.network, w.values}
	if p.Columns == 0 {
		return c
	}
	c.values = 0
	c.iface, c.network = min(c.iface, longestInterface), min(c.network, longestName)
	free := p.Columns - p.railsWidth() - c.iface - c.network - w.phase - 3*len(gap)
	if free < 0 { // the name is what other lines have as well
		c.network = max(4, c.network+free)
	}
	if free >= w.value {
		c.values = min(free, w.values)
	}
	return c
}
