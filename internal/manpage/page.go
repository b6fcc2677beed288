// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package manpage writes manual pages in the language of man(7), from plain text and
// from the Markdown of docs/.
package manpage

import (
	"bytes"
	"fmt"
	"strings"
	"time"
)

// width is the longest line of text. mandoc complains of more than 80 bytes.
const width = 78

// Page is a manual page. Its methods append to it.
type Page struct {
	body bytes.Buffer
	// fresh is set after a heading or an item, where a paragraph macro is redundant.
	fresh bool
}

// New returns a page with its header and its section NAME. The source is program and
// version.
func New(name string, section int, summary, source string, date time.Time) *Page {
	p := &Page{}
	_, _ = fmt.Fprintf(&p.body, ".TH %s %d %s %q\n", escape(strings.ToUpper(name)), section, date.UTC().Format(time.DateOnly), source)
	p.Section("NAME")
	p.fill(escape(name) + ` \- ` + escape(summary))
	return p
}

// Bytes returns the page.
func (p *Page) Bytes() []byte { return p.body.Bytes() }

// Section begins a section.
func (p *Page) Section(title string) { p.heading(".SH", strings.ToUpper(title)) }

func (p *Page) heading(macro, title string) {
	_, _ = fmt.Fprintf(&p.body, "%s %s\n", macro, inline(title))
	p.fresh = true
}

// Text appends plain text: paragraphs, and lines as they are where all lines of a
// paragraph are indented.
func (p *Page) Text(text string) {
	for paragraph := range strings.SplitSeq(strings.TrimSpace(indentTabs(text)), "\n\n") {
		lines := strings.Split(strings.Trim(paragraph, "\n"), "\n")
		first := 0 // indented lines may follow text without a blank line
		for first < len(lines) && !strings.HasPrefix(lines[first], "  ") {
			first++
		}
		rest := first
		for rest < len(lines) && strings.HasPrefix(lines[rest], "  ") {
			rest++
		}
		p.paragraph(escape(strings.Join(lines[:first], " ")))
		p.Literal(strings.Join(lines[first:rest], "\n"))
		p.paragraph(escape(strings.Join(lines[rest:], " ")))
	}
}

func indentTabs(text string) string { return strings.ReplaceAll(text, "\t", "  ") }

func (p *Page) paragraph(text string) {
	if strings.TrimSpace(text) == "" {
		return
	}
	if !p.fresh {
		p.body.WriteString(".PP\n")
	}
	p.fresh = false
	p.fill(text)
}

// fill writes words in lines that are no requests.
func (p *Page) fill(text string) {
	line := ""
	flush := func() {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			line = `\&` + line
		}
		p.body.WriteString(line + "\n")
	}
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > width {
			flush()
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	flush()
}

// Item appends a term with its plain text.
func (p *Page) Item(term, text string) { p.item(bold(term), escape(text)) }

func (p *Page) item(term, text string) {
	p.body.WriteString(".TP\n")
	p.fill(term)
	if strings.TrimSpace(text) == "" {
		text = `\&`
	}
	p.fill(text)
	p.fresh = false
}

// Literal appends lines as they are, indented.
func (p *Page) Literal(text string) {
	if strings.TrimSpace(text) == "" {
		return
	}
	p.body.WriteString(".RS 4\n.nf\n")
	if !p.fresh {
		p.body.WriteString("\n")
	}
	lines := strings.Split(strings.Trim(indentTabs(text), "\n"), "\n")
	indent := commonIndent(lines)
	for _, line := range lines {
		line = strings.TrimRight(strings.ReplaceAll(escape(line[min(indent, len(line)):]), "-", `\-`), " ")
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			line = `\&` + line
		}
		p.body.WriteString(line + "\n")
	}
	p.body.WriteString(".fi\n.RE\n")
	p.fresh = false
}

// commonIndent is the number of spaces that all lines with text begin with.
func commonIndent(lines []string) int {
	indent := -1
	for _, line := range lines {
		spaces := len(line) - len(strings.TrimLeft(line, " "))
		if spaces < len(line) && (indent < 0 || spaces < indent) {
			indent = spaces
		}
	}
	return max(indent, 0)
}

func escape(text string) string { return strings.ReplaceAll(text, `\`, `\e`) }

// bold is for what is typed as it is: with the hyphens of ASCII.
func bold(text string) string {
	return `\fB` + strings.ReplaceAll(escape(text), "-", `\-`) + `\fR`
}
