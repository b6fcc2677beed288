// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"fmt"
	"html/template"
	"path/filepath"
	"strings"
)

// writeMessages writes the page of each message, and the list of them.
func (s *site) writeMessages(out string) error {
	var list strings.Builder
	list.WriteString("<h1>Messages</h1>\n<ul>\n")
	for _, m := range s.messages() {
		body, err := m.html()
		if err != nil {
			return err
		}
		fmt.Fprintf(&list, "<li><a href=\"%s\"><code>%s</code></a> (%s)</li>\n", m.output(), template.HTMLEscapeString(m.text), template.HTMLEscapeString(m.section.Title))
		if err := show(filepath.Join(out, m.output()), view{Title: m.text, Up: up(m.page.path), Source: m.page.path, Body: template.HTML(body)}); err != nil { // of the repository
			return err
		}
	}
	list.WriteString("</ul>\n")
	return show(filepath.Join(out, "messages.html"), view{Title: "Messages", Body: template.HTML(list.String())}) // escaped above
}

// html is the body of the message's page.
func (m *message) html() (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "<h1><code>%s</code></h1>\n<dl>\n", template.HTMLEscapeString(m.text))
	for i, column := range m.columns {
		cell, err := m.page.html(children(m.cells[i])...)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "<dt>%s</dt>\n<dd>%s</dd>\n", template.HTMLEscapeString(column), cell)
	}
	fmt.Fprintf(&b, "</dl>\n<p>From <a href=\"%s%s#%s\">%s: %s</a>. <code>allocnet doctor</code> examines the host, and names each problem with its fix.</p>\n",
		up(m.page.path), output(m.page.path), m.section.ID, template.HTMLEscapeString(m.page.title()), template.HTMLEscapeString(m.section.Title))
	return b.String(), nil
}
