// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hostmap

import (
	"slices"
	"strings"
)

// rails are the lines of the networks that have attachments, from the left to the right. A rail
// ends with the last attachment. The zero value has none.
type rails struct {
	names []string
	// left is how many attachments have not been drawn yet, for each rail.
	left []int
	// begun is how many rails have their head.
	begun int
}

func newRails(m *Map) rails {
	var r rails
	for _, n := range m.Networks {
		if n.Attachments > 0 {
			r.names, r.left = append(r.names, n.Name), append(r.left, n.Attachments)
		}
	}
	return r
}

func (r rails) index(network string) int { return slices.Index(r.names, network) }

// sorted returns the networks that have a rail, then the others.
func (r rails) sorted(all []Network) []Network {
	return slices.SortedStableFunc(slices.Values(all), func(a, b Network) int {
		return r.rank(a) - r.rank(b)
	})
}

func (r rails) rank(n Network) int {
	if r.index(n.Name) >= 0 {
		return 0
	}
	return 1
}

// runs tells whether a rail is drawn in the present line.
func (r rails) runs(i int) bool { return i < r.begun && r.left[i] > 0 }

// railsWidth is that of all rails, with a space after them.
func (r rails) railsWidth() int {
	if len(r.names) == 0 {
		return 0
	}
	return 2*len(r.names) + 1
}

type glyphs struct{ rail, corner, line, crossing, joint, full, empty, ellipsis string }

var (
	unicodeGlyphs = glyphs{"│", "╭", "─", "┼", "●", "█", "░", "…"}
	asciiGlyphs   = glyphs{"|", ".", "-", "|", "*", "#", "-", "..."}
)

// railStyles are the colours of rails, which repeat. Green, yellow and red are states.
var railStyles = []style{"36", "35", "34", "96", "95", "94"}

func railStyle(i int) style { return railStyles[i%len(railStyles)] }

func (p *picture) nameStyle(network string) style {
	if i := p.index(network); i >= 0 {
		return railStyle(i)
	}
	return plain
}

// railCells draws the rails, with the line of rail i from there to the right. -1: no rail
// has one.
func (p *picture) railCells(i int, begin string) {
	for k := range p.names {
		switch {
		case i >= 0 && k == i:
			p.put(railStyle(i), begin+p.line)
		case i >= 0 && k > i && p.runs(k):
			p.put(railStyle(k), p.crossing)
			p.put(railStyle(i), p.line)
		case i >= 0 && k > i:
			p.put(railStyle(i), strings.Repeat(p.line, 2))
		case p.runs(k):
			p.put(railStyle(k), p.rail)
			p.put(plain, " ")
		default:
			p.put(plain, "  ")
		}
	}
	if len(p.names) > 0 {
		p.put(plain, " ")
	}
}

func (p *picture) railHead(network string) {
	i := p.index(network)
	p.railCells(i, p.corner)
	p.begun = max(p.begun, i+1)
}

// railsBetween draws the rails in a line without an attachment.
func (p *picture) railsBetween() { p.railCells(-1, "") }

// railJoint draws the rails in the line of an attachment to the network.
func (p *picture) railJoint(network string) {
	i := p.index(network)
	p.railCells(i, p.joint)
	if i >= 0 {
		p.left[i]--
	}
}
