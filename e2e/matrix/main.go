// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Command matrix writes the section "Measured" of docs/nomad.md from the results of the
// tests with several versions of Nomad and of the CNI plugins. `make matrix` runs it.
package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "matrix:", err)
		os.Exit(1)
	}
}

// run writes the section of a document from a directory of results.
func run(args []string) error {
	if len(args) != 2 {
		return errors.New("want the document, and the directory of the results")
	}
	document, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	written, err := replaceSection(string(document), args[1])
	if err != nil {
		return err
	}
	return os.WriteFile(args[0], []byte(written), 0o644) //nolint:gosec // a document
}

// The markers of the section.
const (
	begin = "<!-- begin: make matrix -->\n"
	end   = "<!-- end: make matrix -->\n"
)

// replaceSection returns the document with the tables of the results.
func replaceSection(document, results string) (string, error) {
	head, rest, found := strings.Cut(document, begin)
	_, tail, closed := strings.Cut(rest, end)
	if !found || !closed {
		return "", fmt.Errorf("the document lacks %q or %q", strings.TrimSpace(begin), strings.TrimSpace(end))
	}
	var tables []string
	for _, t := range []table{nomadTable, pluginTable} {
		text, err := t.render(results)
		if err != nil {
			return "", err
		}
		tables = append(tables, text)
	}
	return head + begin + "\n" + strings.Join(tables, "\n") + "\n" + end + tail, nil
}
