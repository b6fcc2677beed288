// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"path"
	"strings"

	"github.com/yuin/goldmark/ast"
	table "github.com/yuin/goldmark/extension/ast"
)

// message is what a program says, in a row of a table whose first column is "message" or "problem". People search for it.
type message struct {
	page *page
	// text is the message, section the heading of its table.
	text    string
	section heading
	// columns and cells are the others of the row.
	columns []string
	cells   []ast.Node
}

// messages returns those of a page. A row with several messages has one for each.
func (p *page) messages() (all []message) {
	for _, t := range find[*table.Table](p.root) {
		head := children(t.FirstChild())
		if first := p.plain(head[0]); first != "message" && first != "problem" {
			continue
		}
		m := message{page: p, section: p.above(t)}
		for _, cell := range head[1:] {
			m.columns = append(m.columns, p.plain(cell))
		}
		for _, row := range children(t)[1:] {
			m.cells = children(row)[1:]
			for _, text := range find[*ast.CodeSpan](row.FirstChild()) {
				m.text = p.plain(text)
				all = append(all, m)
			}
		}
	}
	return all
}

// above returns the heading that a node is below.
func (p *page) above(node ast.Node) (h heading) {
	for n := node.PreviousSibling(); n != nil; n = n.PreviousSibling() {
		if above, ok := n.(*ast.Heading); ok {
			return p.heading(above)
		}
	}
	return h
}

// output is the file of the message, beside that of its page, so that links of the row lead to the same.
func (m *message) output() string {
	return path.Join(path.Dir(m.page.path), "message-"+anchorOf(m.section.Title)+"-"+strings.Trim(shorten(anchorOf(m.text)), "-")+".html")
}

// shorten keeps the name of a file within what file systems and people take.
func shorten(name string) string {
	for strings.Contains(name, "--") {
		name = strings.ReplaceAll(name, "--", "-")
	}
	return name[:min(len(name), 80)]
}
