// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package manpage

import (
	"fmt"
	"regexp"
	"strings"
)

// Extract returns a section of a Markdown document, with its heading and subsections.
func Extract(document, title string) (string, error) {
	lines := strings.SplitAfter(document, "\n")
	for i, line := range lines {
		level, text := headingOf(line)
		if level == 0 || text != title {
			continue
		}
		end := i + 1
		for fenced := false; end < len(lines); end++ {
			if isFence(lines[end]) {
				fenced = !fenced
			}
			if next, _ := headingOf(lines[end]); !fenced && next > 0 && next <= level {
				break
			}
		}
		return strings.Join(lines[i:end], ""), nil
	}
	return "", fmt.Errorf("no section %q", title)
}

// headingOf returns the level of a heading; 0 for another line.
func headingOf(line string) (level int, text string) {
	text = strings.TrimLeft(line, "#")
	if level = len(line) - len(text); level == 0 || !strings.HasPrefix(text, " ") {
		return 0, ""
	}
	return level, strings.TrimSpace(text)
}

// isFence also finds the fence of code within a list.
func isFence(line string) bool { return strings.HasPrefix(strings.TrimLeft(line, " "), "```") }

var (
	comment  = regexp.MustCompile(`(?s)<!--.*?-->\n?`)
	listItem = regexp.MustCompile(`^(?:-|\d+\.) +`)
	link     = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	code     = regexp.MustCompile("`([^`]+)`")
	strong   = regexp.MustCompile(`\*\*([^*]+)\*\*`)
	divider  = regexp.MustCompile(`^\|[-| :]+\|$`)
)

// Markdown appends a document: headings, paragraphs, lists, fenced code, and tables.
// A heading of level 2 is a section, a deeper one a subsection. A row of a table becomes
// an item whose term is the first column.
func (p *Page) Markdown(text string) {
	lines := strings.Split(comment.ReplaceAllString(text, ""), "\n")
	for i := 0; i < len(lines); {
		if lines[i] == "" {
			i++
			continue
		}
		block := lines[i:blockEnd(lines, i)]
		i += len(block)
		switch level, title := headingOf(block[0]); {
		case level > 2:
			p.heading(".SS", title)
		case level > 0:
			p.Section(title)
		case isFence(block[0]):
			p.Literal(strings.Join(block[1:len(block)-1], "\n"))
		case strings.HasPrefix(block[0], "|"):
			p.table(block)
		case listItem.MatchString(block[0]):
			p.body.WriteString(".IP \\(bu 2\n")
			p.fill(inline(listItem.ReplaceAllString(strings.Join(block, " "), "")))
			p.fresh = false
		default:
			p.paragraph(inline(strings.Join(block, " ")))
		}
	}
}

func blockEnd(lines []string, begin int) int {
	fenced := isFence(lines[begin])
	heading, _ := headingOf(lines[begin])
	for end := begin + 1; end < len(lines); end++ {
		line := lines[end]
		switch next, _ := headingOf(line); {
		case fenced && isFence(line):
			return end + 1
		case fenced:
		case heading > 0, next > 0, line == "", isFence(line), listItem.MatchString(line):
			return end
		case strings.HasPrefix(line, "|") != strings.HasPrefix(lines[begin], "|"):
			return end
		}
	}
	return len(lines)
}

// table appends the rows. Columns after the second have their title, unless the cell is
// empty.
func (p *Page) table(rows []string) {
	titles := cells(rows[0])
	for _, row := range rows[1:] {
		if divider.MatchString(row) {
			continue
		}
		var text []string
		columns := cells(row)
		for i, cell := range columns[1:] {
			if i > 0 && i+1 < len(titles) && titles[i+1] != "" && cell != "" {
				cell = strings.ToUpper(titles[i+1][:1]) + titles[i+1][1:] + ": " + cell
			}
			if cell != "" {
				text = append(text, strings.TrimSuffix(cell, ".")+".")
			}
		}
		p.item(inline(columns[0]), inline(strings.Join(text, " ")))
	}
}

func cells(row string) []string {
	columns := strings.Split(strings.Trim(row, "|"), "|")
	for i := range columns {
		columns[i] = strings.TrimSpace(columns[i])
	}
	return columns
}

// inline escapes text, has code and strong text bold, and leaves the targets of links
// out.
func inline(text string) string {
	text = link.ReplaceAllString(escape(text), "$1")
	text = code.ReplaceAllStringFunc(text, func(s string) string {
		return `\fB` + strings.ReplaceAll(strings.Trim(s, "`"), "-", `\-`) + `\fR`
	})
	return strong.ReplaceAllString(text, `\fB$1\fR`)
}
