// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"io"
	"strings"
	"unicode/utf8"
)

// colour is the parameter of a terminal's SGR sequence; empty for the default.
type colour string

const (
	green  colour = "32"
	yellow colour = "33"
	red    colour = "31"
)

// cell is a text of a table, of one or more lines.
type cell struct {
	lines  []string
	colour colour
}

// text is a cell of one line.
func text(s string) cell { return coloured("", s) }

// coloured is a cell of lines, which are escaped.
func coloured(c colour, lines ...string) cell {
	escaped := make([]string, len(lines))
	for i, line := range lines {
		escaped[i] = printable(line)
	}
	return cell{escaped, c}
}

// table is rows of cells under a heading.
type table [][]cell

func newTable(heading ...string) table {
	var t table
	t.add(heading...)
	return t
}

// add adds a row of texts in the default colour.
func (t *table) add(texts ...string) {
	row := make([]cell, len(texts))
	for i, s := range texts {
		row[i] = text(s)
	}
	*t = append(*t, row)
}

// widths returns the width of each column.
func (t table) widths() []int {
	var widths []int
	for _, row := range t {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			for _, line := range c.lines {
				widths[i] = max(widths[i], utf8.RuneCountInString(line))
			}
		}
	}
	return widths
}

// width returns the length of the longest line.
func (t table) width() int {
	width := -len(gap)
	for _, w := range t.widths() {
		width += len(gap) + w
	}
	return width
}

// gap is between columns.
const gap = "  "

func (t table) print(w io.Writer, colours bool) error { return t.printColumns(w, t.widths(), colours) }

// printColumns prints the table with columns of at least these widths.
func (t table) printColumns(w io.Writer, widths []int, colours bool) error {
	var b strings.Builder
	for _, row := range t {
		for i, more := 0, true; more; i++ {
			more = printLine(&b, row, i, widths, colours)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// printLine prints a line of a row, and tells whether there are more.
func printLine(b *strings.Builder, row []cell, line int, widths []int, colours bool) (more bool) {
	blank := 0
	for i, c := range row {
		s := ""
		if line < len(c.lines) {
			s = c.lines[line]
		}
		more = more || line+1 < len(c.lines)
		if s != "" {
			b.WriteString(strings.Repeat(" ", blank))
			blank = 0
			b.WriteString(c.colour.around(s, colours))
		}
		blank += widths[i] - utf8.RuneCountInString(s) + len(gap)
	}
	b.WriteByte('\n')
	return more
}

func (c colour) around(s string, colours bool) string {
	if c == "" || !colours {
		return s
	}
	return "\x1b[" + string(c) + "m" + s + "\x1b[0m"
}
