// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"bytes"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

var markdown = goldmark.New(goldmark.WithExtensions(extension.Table), goldmark.WithParserOptions(parser.WithAutoHeadingID()))

// page is a document.
type page struct {
	// path is that of the document in the repository.
	path   string
	source []byte
	root   ast.Node
}

func newPage(path string, source []byte) *page {
	ids := parser.NewContext(parser.WithIDs(&anchors{taken: map[string]bool{}}))
	p := &page{path, source, markdown.Parser().Parse(text.NewReader(source), parser.WithContext(ids))}
	for _, node := range find[*ast.HTMLBlock](p.root) { // marks for tests
		node.Parent().RemoveChild(node.Parent(), node)
	}
	return p
}

// find returns the nodes of a kind below a node.
func find[T ast.Node](below ast.Node) (found []T) {
	_ = ast.Walk(below, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // which has no errors of its own
		if node, ok := n.(T); ok && entering {
			found = append(found, node)
		}
		return ast.WalkContinue, nil
	})
	return found
}

// heading is one of a page.
type heading struct {
	Level     int
	ID, Title string
}

// heading returns what a node is.
func (p *page) heading(h *ast.Heading) heading {
	id, _ := h.AttributeString("id")
	return heading{h.Level, string(id.([]byte)), p.plain(h)} // the parser sets it
}

// headings returns those of the page, without what is quoted in it.
func (p *page) headings() (all []heading) {
	for _, h := range find[*ast.Heading](p.root) {
		all = append(all, p.heading(h))
	}
	return all
}

// title is that of the first heading.
func (p *page) title() string {
	if all := p.headings(); len(all) > 0 {
		return all[0].Title
	}
	return p.path
}

// plain returns the text of a node, without its form.
func (p *page) plain(below ast.Node) string {
	var b strings.Builder
	_ = ast.Walk(below, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // which has no errors of its own
		switch node := n.(type) {
		case *ast.Text:
			if entering {
				b.Write(node.Value(p.source))
				if node.SoftLineBreak() {
					b.WriteByte(' ')
				}
			}
		case *ast.FencedCodeBlock:
			if entering {
				b.Write(node.Lines().Value(p.source))
			}
		}
		if !entering && n.Type() == ast.TypeBlock {
			b.WriteByte(' ')
		}
		return ast.WalkContinue, nil
	})
	return strings.Join(strings.Fields(b.String()), " ")
}

// html renders a node, or what is below it.
func (p *page) html(nodes ...ast.Node) (string, error) {
	var b bytes.Buffer
	for _, node := range nodes {
		if err := markdown.Renderer().Render(&b, p.source, node); err != nil {
			return "", err
		}
	}
	return finish.Replace(b.String()), nil
}

// finish makes what is wide scroll by itself, also with a keyboard, and headers without a text plain cells.
var finish = strings.NewReplacer(
	"<table>", `<div class="wide" role="group" aria-label="Table" tabindex="0"><table>`, "</table>", "</table></div>",
	"<pre>", `<pre tabindex="0">`, "<th></th>", "<td></td>",
)

// children returns the nodes directly below one.
func children(of ast.Node) (all []ast.Node) {
	for n := of.FirstChild(); n != nil; n = n.NextSibling() {
		all = append(all, n)
	}
	return all
}
