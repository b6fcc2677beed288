// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/yuin/goldmark/ast"
)

// section is what the search finds: what is below a heading, or a message.
type section struct {
	Page    string `json:"page"`
	Title   string `json:"title"`
	Address string `json:"address"`
	Text    string `json:"text"`
}

// sections returns what is below each heading of a page.
func (p *page) sections() (all []section) {
	for _, n := range children(p.root) {
		if node, ok := n.(*ast.Heading); ok {
			h := p.heading(node)
			all = append(all, section{p.title(), h.Title, output(p.path) + "#" + h.ID, ""})
		} else if len(all) > 0 {
			all[len(all)-1].Text += p.plain(n) + " "
		}
	}
	return all
}

// writeSearch writes the page of the search, and the sections as a script: a browser reads that also from files.
func (s *site) writeSearch(out string) error {
	var all []section
	for _, path := range s.paths() {
		all = append(all, s.pages[path].sections()...)
	}
	for _, m := range s.messages() {
		text := ""
		for _, cell := range m.cells {
			text += m.page.plain(cell) + " "
		}
		all = append(all, section{"Messages", m.text, m.output(), text})
	}
	data, err := json.Marshal(all)
	if err == nil {
		err = os.WriteFile(filepath.Join(out, "sections.js"), append(append([]byte("const sections = "), data...), ";\n"...), 0o644)
	}
	if err != nil {
		return err
	}
	return show(filepath.Join(out, "search.html"), view{Title: "Search", Body: searchBody})
}

const searchBody = `<h1>Search</h1>
<noscript><p>The search needs JavaScript. <a href="docs/index.html">All pages</a> are listed by question.</p></noscript>
<p id="count" role="status"></p>
<ol id="found"></ol>
<script src="sections.js"></script>
<script src="search.js"></script>
`
