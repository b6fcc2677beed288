// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cli

import (
	"io"
	"strings"
	"unicode/utf8"

	"github.com/allocnet/allocnet/internal/termtext"
)

// Colour is the parameter of a terminal's SGR sequence; empty for the default.
type Colour string

// What is right, changes or may be wrong, and is wrong.
const (
	Green  Colour = "32"
	Yellow Colour = "33"
	Red    Colour = "31"
)

// Cell is a text of a table, of one or more lines.
type Cell struct {
	Lines  []string
	Colour Colour
}

// Text is a cell of one line.
func Text(s string) Cell { return Coloured("", s) }

// Coloured is a cell of lines, which are escaped.
func Coloured(c Colour, lines ...string) Cell {
	escaped := make([]string, len(lines))
	for i, line := range lines {
		escaped[i] = Printable(line)
	}
	return Cell{escaped, c}
}

// Table is rows of cells under a heading.
type Table [][]Cell

// NewTable returns a table without rows.
func NewTable(heading ...string) Table {
	var t Table
	t.Add(heading...)
	return t
}

// Add adds a row of texts in the default colour.
func (t *Table) Add(texts ...string) {
	row := make([]Cell, len(texts))
	for i, s := range texts {
		row[i] = Text(s)
	}
	*t = append(*t, row)
}

// Widths returns the width of each column.
func (t Table) Widths() []int {
	var widths []int
	for _, row := range t {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			for _, line := range c.Lines {
				widths[i] = max(widths[i], utf8.RuneCountInString(line))
			}
		}
	}
	return widths
}

// Width returns the length of the longest line.
func (t Table) Width() int {
	width := -len(Gap)
	for _, w := range t.Widths() {
		width += len(Gap) + w
	}
	return width
}

// Gap is between columns.
const Gap = "  "

// Print prints the table.
func (t Table) Print(w io.Writer, colours bool) error { return t.PrintColumns(w, t.Widths(), colours) }

// PrintColumns prints the table with columns of at least these widths.
func (t Table) PrintColumns(w io.Writer, widths []int, colours bool) error {
	var b strings.Builder
	for _, row := range t {
		for i, more := 0, true; more; i++ {
			more = printLine(&b, row, i, widths, colours)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func printLine(b *strings.Builder, row []Cell, line int, widths []int, colours bool) (more bool) {
	blank := 0
	for i, c := range row {
		s := ""
		if line < len(c.Lines) {
			s = c.Lines[line]
		}
		more = more || line+1 < len(c.Lines)
		if s != "" {
			b.WriteString(strings.Repeat(" ", blank))
			blank = 0
			b.WriteString(c.Colour.around(s, colours))
		}
		blank += widths[i] - utf8.RuneCountInString(s) + len(Gap)
	}
	b.WriteByte('\n')
	return more
}

func (c Colour) around(s string, colours bool) string {
	if c == "" || !colours {
		return s
	}
	return "\x1b[" + string(c) + "m" + s + "\x1b[0m"
}

// Wrap breaks a text into lines of a width: at spaces, and within words that are longer.
func Wrap(s string, width int) []string {
	if lines := termtext.Fill(strings.Fields(s), " ", width); len(lines) > 0 {
		return lines
	}
	return []string{""}
}
