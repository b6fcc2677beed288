// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// repository is where files are that are no pages.
const repository = "https://github.com/allocnet/allocnet"

// site is all pages, by the paths of their documents.
type site struct {
	root  string
	pages map[string]*page
}

// read reads the documents of a checkout: those of docs, and those of its root.
func read(root string) (*site, error) {
	s := &site{root, map[string]*page{}}
	var documents []string
	for _, pattern := range []string{"*.md", "docs/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(found) == 0 {
			return nil, fmt.Errorf("%s has no %s: want the root of a checkout (%w)", root, pattern, os.ErrNotExist)
		}
		documents = append(documents, found...)
	}
	for _, document := range documents {
		path, err := filepath.Rel(root, document)
		if err != nil {
			return nil, err
		}
		source, err := os.ReadFile(document)
		if err != nil {
			return nil, err
		}
		s.pages[path] = newPage(path, source)
	}
	return s, nil
}

// paths returns the documents in the order of their names.
func (s *site) paths() []string {
	return slices.Sorted(maps.Keys(s.pages))
}

// messages returns the messages of all pages.
func (s *site) messages() (all []message) {
	for _, path := range s.paths() {
		all = append(all, s.pages[path].messages()...)
	}
	return all
}

// output is the file that a document becomes.
func output(path string) string {
	dir, name := filepath.Split(path)
	if name == "README.md" {
		return dir + "index.html"
	}
	return dir + strings.TrimSuffix(name, ".md") + ".html"
}
