// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hostmap

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/termtext"
	"github.com/allocnet/allocnet/state"
)

// TextOptions say where a text is printed.
type TextOptions struct {
	// Columns is the width that lines fit into. 0: there is no limit.
	Columns int
	// Colours is whether the terminal has them. Default: no.
	Colours bool
	// ASCII draws without other characters than those of ASCII. Default: with the box
	// drawing characters of Unicode.
	ASCII bool
	// IDs are what is shown in place of the IDs of allocations. Nil: the IDs.
	IDs map[string]string
}

// Text draws a map for a terminal: networks at the top, each with a line that goes down to its
// attachments.
func Text(m *Map, o TextOptions) string {
	p := newPicture(m, o)
	p.title()
	if len(m.Networks) > 0 {
		p.newline()
	}
	for _, n := range p.networks {
		p.network(n)
	}
	for _, a := range m.Allocations {
		p.allocation(a)
	}
	p.problems()
	return trailing.ReplaceAllString(p.b.String(), "\n")
}

// trailing are the spaces of rails that have nothing on their right.
var trailing = regexp.MustCompile(` +\n`)

// narrowest is the least width that lines are made to fit.
const narrowest = 48

type picture struct {
	*Map
	TextOptions
	rails
	glyphs
	b strings.Builder
	// networks are those with a rail, then the others.
	networks []Network
	columns  columns
}

func newPicture(m *Map, o TextOptions) *picture {
	p := &picture{Map: m, TextOptions: o, glyphs: unicodeGlyphs, rails: newRails(m)}
	if o.ASCII {
		p.glyphs = asciiGlyphs
	}
	if o.Columns > 0 {
		p.Columns = max(o.Columns, narrowest)
		if p.railsWidth() > p.Columns/3 {
			p.rails = rails{}
		}
	}
	p.networks = p.sorted(m.Networks)
	p.columns = p.measure()
	return p
}

// space is how many columns are left after so many; 0 is no limit.
func (p *picture) space(used int) int {
	if p.Columns == 0 {
		return 0
	}
	return max(2, p.Columns-used)
}

func (p *picture) newline() { p.b.WriteByte('\n') }

func (p *picture) put(s style, text string) {
	p.b.WriteString(s.around(termtext.Printable(text), p.Colours))
}

// cut shortens a text to the columns that are left after so many.
func (p *picture) cut(text string, used int) string {
	text = termtext.Printable(text)
	if p.Columns == 0 {
		return text
	}
	return termtext.Cut(text, p.space(used), p.ellipsis)
}

// title draws the sums, in one line if it is long enough.
func (p *picture) title() {
	c := p.count()
	sums, drift := ": "+c.String(), c.driftText()
	if drift != "" {
		drift = ", " + drift
	}
	if p.Columns == 0 || columnsOf("host "+p.Host+sums+drift) <= p.Columns {
		p.put(bold, "host "+p.Host)
		p.put(plain, sums)
		p.put(red, drift)
		p.newline()
		return
	}
	p.put(bold, p.cut("host "+p.Host, 0))
	p.newline()
	p.lines(func() {}, 0, termtext.Fill(strings.Fields(c.String()), " ", p.Columns))
	if c.drifts > 0 {
		p.remarks(func() {}, 0, []string{c.driftText()}, nil)
	}
}

// network draws the head of a network, with the beginning of its rail.
func (p *picture) network(n Network) {
	indent := p.railsWidth() + p.columns.network
	begin := p.railsBetween
	p.railHead(n.Name)
	p.put(p.nameStyle(n.Name), pad(p.short(n.Name, p.columns.network), p.columns.network))
	head := termtext.Fill(wordsOf(n.describe()), " ", p.space(indent+len(gap)))
	for i, line := range head {
		if i > 0 {
			begin()
			p.put(plain, strings.Repeat(" ", p.columns.network))
		}
		p.put(plain, gap+line)
		p.newline()
	}
	if len(head) == 0 {
		p.newline()
	}
	for _, pool := range n.Pools {
		p.pool(pool, begin, p.columns.network+len(gap))
	}
	p.remarks(begin, p.columns.network+len(gap), n.drift(), nil)
}

// barCells is the length of a pool's bar.
const barCells = 12

// pool draws a bar, and beside it what the pool has.
func (p *picture) pool(pool Pool, begin func(), indent int) {
	cells := pool.cells(barCells)
	begin()
	p.put(plain, strings.Repeat(" ", indent))
	p.put(barStyle(pool), strings.Repeat(p.full, cells))
	p.put(dim, strings.Repeat(p.empty, barCells-cells))
	indent += barCells + 1
	words := wordsOf(pool.describe())
	lines := termtext.Fill(words, " ", p.space(p.railsWidth()+indent))
	p.put(plain, " "+lines[0])
	p.newline()
	p.lines(begin, indent, lines[1:])
}

func barStyle(pool Pool) style {
	switch fill := pool.fill(); {
	case fill >= fullPool:
		return red
	case fill >= crowdedPool:
		return yellow
	}
	return green
}

// Shares of a pool from which on its bar has another colour.
const crowdedPool, fullPool = 0.8, 0.95

// allocation draws an allocation with a line for each attachment.
func (p *picture) allocation(a Allocation) {
	p.railsBetween()
	p.newline()
	p.railsBetween()
	id := a.ID
	if short, ok := p.IDs[a.ID]; ok {
		id = short
	}
	id = p.cut(id, p.railsWidth())
	p.put(bold, id)
	if owner := a.owner(); owner != "" {
		if used := p.railsWidth() + termtext.Width(id) + len(gap); p.Columns == 0 || used+10 < p.Columns {
			p.put(plain, gap+p.cut(owner, used))
		}
	}
	p.newline()
	wrong, unknown := a.remarks()
	p.remarks(p.railsBetween, len(gap), wrong, unknown)
	for _, n := range a.Attachments {
		p.attachment(n)
	}
}

// attachment draws the line that leads from the rail of the network to the interface.
func (p *picture) attachment(n Attachment) {
	p.railJoint(n.Network)
	p.put(plain, pad(p.short(n.Interface, p.columns.iface), p.columns.iface)+gap)
	p.put(p.nameStyle(n.Network), pad(p.short(n.Network, p.columns.network), p.columns.network))
	begin, indent := p.railsBetween, len(gap)
	values := printables(n.values())
	if p.columns.values > 0 {
		indent = p.columns.iface + p.columns.network + 2*len(gap)
		lines := append(termtext.Fill(values, gap, p.columns.values), "")
		p.put(plain, gap+pad(lines[0], p.columns.values)+gap)
		p.put(phaseStyle(n.Phase), string(n.Phase))
		p.newline()
		p.lines(begin, indent, lines[1:max(1, len(lines)-1)])
	} else {
		p.put(phaseStyle(n.Phase), gap+string(n.Phase))
		p.newline()
		p.lines(begin, indent, termtext.Fill(values, gap, p.space(p.railsWidth()+indent)))
	}
	wrong, unknown := n.remarks()
	p.remarks(begin, indent, wrong, unknown)
}

// wordsOf returns the words of a text, escaped.
func wordsOf(s string) []string { return strings.Fields(termtext.Printable(s)) }

// printables returns texts, escaped.
func printables(all []string) []string {
	escaped := make([]string, len(all))
	for i, s := range all {
		escaped[i] = termtext.Printable(s)
	}
	return escaped
}

func (p *picture) lines(begin func(), indent int, lines []string) {
	for _, line := range lines {
		begin()
		p.put(plain, strings.Repeat(" ", indent)+line)
		p.newline()
	}
}

func (p *picture) remarks(begin func(), indent int, wrong, unknown []string) {
	for _, r := range []struct {
		mark  string
		style style
		texts []string
	}{{"! ", red, wrong}, {"? ", yellow, unknown}} {
		for _, text := range r.texts {
			words := wordsOf(text)
			for i, line := range termtext.Fill(words, " ", p.space(p.railsWidth()+indent+len(r.mark))) {
				mark := r.mark
				if i > 0 {
					mark = "  "
				}
				begin()
				p.put(plain, strings.Repeat(" ", indent))
				p.put(r.style, mark+line)
				p.newline()
			}
		}
	}
}

// problems draws flows that were denied, and what the map lacks.
func (p *picture) problems() {
	p.rails = rails{}
	for _, lines := range [][]string{p.denied(), p.Problems} {
		if len(lines) > 0 {
			p.newline()
			p.remarks(func() {}, 0, lines, nil)
		}
	}
}

func (p *picture) short(name string, columns int) string {
	return termtext.Cut(termtext.Printable(name), columns, p.ellipsis)
}

// pad fills a printable text up with spaces.
func pad(s string, columns int) string {
	return s + strings.Repeat(" ", max(0, columns-termtext.Width(s)))
}

func phaseStyle(phase state.Phase) style {
	return map[state.Phase]style{state.Adding: yellow, state.Attached: green, hook.Reattaching: red, state.Deleting: yellow, state.Pending: red, hook.Missing: red}[phase]
}

// style is the parameter of a terminal's SGR sequence; empty for the default.
type style string

const (
	plain  style = ""
	bold   style = "1"
	dim    style = "2"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
)

func (s style) around(text string, colours bool) string {
	if s == plain || !colours || text == "" {
		return text
	}
	return fmt.Sprintf("\x1b[%sm%s\x1b[0m", s, text)
}
