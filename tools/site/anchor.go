// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/yuin/goldmark/ast"
)

var notInAnchor = regexp.MustCompile(`[^\p{L}\p{N} _-]`)

// anchorOf returns the name that GitHub gives a heading, so that a link works on both.
func anchorOf(title string) string {
	return strings.ReplaceAll(notInAnchor.ReplaceAllString(strings.ToLower(title), ""), " ", "-")
}

// anchors are those of a page.
type anchors struct{ taken map[string]bool }

// Generate is called with the source of a heading.
func (a *anchors) Generate(source []byte, _ ast.NodeKind) []byte {
	name := anchorOf(string(source))
	for i := 1; a.taken[name]; i++ {
		name = fmt.Sprintf("%s-%d", anchorOf(string(source)), i)
	}
	a.taken[name] = true
	return []byte(name)
}

// Put is called for an anchor that the document itself gives.
func (a *anchors) Put(name []byte) { a.taken[string(name)] = true }
