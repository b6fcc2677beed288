// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/yuin/goldmark/ast"
)

// target is what a link of a page leads to: a path of the repository and an anchor.
func (p *page) target(link string) (document, anchor string, inside bool) {
	if strings.Contains(link, "://") || strings.HasPrefix(link, "mailto:") {
		return "", "", false
	}
	document, anchor, _ = strings.Cut(link, "#")
	if document == "" {
		return p.path, anchor, true
	}
	return path.Join(path.Dir(p.path), document), anchor, true
}

// brokenLinks returns an error for each link to a file or a heading that does not exist.
func (s *site) brokenLinks() (all []error) {
	for _, path := range s.paths() {
		p := s.pages[path]
		for _, link := range p.links() {
			if document, anchor, inside := p.target(link); inside && !s.has(document, anchor) {
				all = append(all, fmt.Errorf("%s: the link %s leads nowhere", path, link))
			}
		}
	}
	return all
}

// has reports whether the repository has a file, and that the heading.
func (s *site) has(document, anchor string) bool {
	if p := s.pages[document]; p != nil {
		return anchor == "" || slices.ContainsFunc(p.headings(), func(h heading) bool { return h.ID == anchor })
	}
	_, err := os.Stat(filepath.Join(s.root, document))
	return err == nil && anchor == ""
}

// links returns the destinations of links and pictures.
func (p *page) links() (all []string) {
	for _, n := range find[*ast.Link](p.root) {
		all = append(all, string(n.Destination))
	}
	return append(all, p.pictures()...)
}

// pictures returns the destinations of pictures.
func (p *page) pictures() (all []string) {
	for _, n := range find[*ast.Image](p.root) {
		all = append(all, string(n.Destination))
	}
	return all
}

// relink has each link lead to a page of the site, or to the file in the repository.
func (s *site) relink(p *page) {
	for _, n := range find[*ast.Link](p.root) {
		if document, anchor, inside := p.target(string(n.Destination)); inside {
			n.Destination = []byte(s.address(p.path, document, anchor))
		}
	}
}

// address is that of a document for a page beside another one.
func (s *site) address(from, document, anchor string) string {
	address := repository + "/blob/main/" + document
	if info, err := os.Stat(filepath.Join(s.root, document)); err == nil && info.IsDir() {
		address = repository + "/tree/main/" + document
	}
	if s.pages[document] != nil {
		address = up(from) + output(document)
	}
	if anchor != "" {
		address += "#" + anchor
	}
	return address
}

// up leads from a page to the root of the site.
func up(from string) string { return strings.Repeat("../", strings.Count(from, "/")) }
