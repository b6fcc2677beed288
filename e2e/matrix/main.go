// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Command matrix writes a table into docs/nomad.md from the results of the tests with several
// versions of the CNI plugins. `make matrix` runs it.
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
	return os.WriteFile(args[0], []byte(written), 0o644)
}

// The markers of the section.
const (
	begin = "<!-- begin: make matrix -->\n"
	end   = "<!-- end: make matrix -->\n"
)

// replaceSection returns the document with the table of the results.
func replaceSection(document, results string) (string, error) {
	head, rest, found := strings.Cut(document, begin)
	_, tail, closed := strings.Cut(rest, end)
	if !found || !closed {
		return "", fmt.Errorf("the document lacks %q or %q", strings.TrimSpace(begin), strings.TrimSpace(end))
	}
	table, err := render(results)
	if err != nil {
		return "", err
	}
	return head + begin + "\n" + table + "\n" + end + tail, nil
}
