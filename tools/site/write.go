// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"os"
	"path"
	"path/filepath"
)

//go:embed theme
var theme embed.FS

var layout = template.Must(template.ParseFS(theme, "theme/layout.html"))

// view is what the layout shows.
type view struct {
	Title, Up, Source string
	Home              bool
	Body              template.HTML
	Headings          []heading
}

// write makes the site in a directory that it replaces.
func (s *site) write(out string) error {
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	for _, path := range s.paths() {
		s.relink(s.pages[path])
	}
	for _, step := range []func(string) error{s.writePages, s.writeMessages, s.writeSearch, s.copyPictures, copyTheme} {
		if err := step(out); err != nil {
			return err
		}
	}
	return nil
}

func (s *site) writePages(out string) error {
	for _, path := range s.paths() {
		p := s.pages[path]
		body, err := p.html(p.root)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		v := view{Title: p.title(), Up: up(path), Source: path, Home: path == "README.md", Body: template.HTML(body)} // of the repository
		for _, h := range p.headings() {
			if h.Level == 2 {
				v.Headings = append(v.Headings, h)
			}
		}
		if err := show(filepath.Join(out, output(path)), v); err != nil {
			return err
		}
	}
	return nil
}

// show writes a page.
func show(path string, v view) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644) // two of one name would be one
	if err != nil {
		return err
	}
	if err := layout.Execute(f, v); err != nil {
		_ = f.Close() // the first error counts
		return fmt.Errorf("%s: %w", path, err)
	}
	return f.Close()
}

func (s *site) copyPictures(out string) error {
	for _, document := range s.paths() {
		for _, picture := range s.pages[document].pictures() {
			from := path.Join(path.Dir(document), picture)
			data, err := os.ReadFile(filepath.Join(s.root, from))
			if err == nil {
				err = os.WriteFile(filepath.Join(out, from), data, 0o644)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// copyTheme writes the files that pages share.
func copyTheme(out string) error {
	for _, name := range []string{"style.css", "search.js"} {
		data, err := fs.ReadFile(theme, "theme/"+name)
		if err == nil {
			err = os.WriteFile(filepath.Join(out, name), data, 0o644)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
