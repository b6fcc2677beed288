// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Command benchmarks writes the pictures and tables of docs/benchmarks.md from the rows of docs/benchmarks.txt. `make bench` runs it.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "benchmarks:", err)
		os.Exit(1)
	}
}

// run writes what is made of the rows into the directory that has them.
func run(args []string) error {
	if len(args) != 1 {
		return errors.New("want the directory of benchmarks.txt")
	}
	rows, err := os.ReadFile(filepath.Join(args[0], "benchmarks.txt"))
	if err != nil {
		return err
	}
	page := filepath.Join(args[0], "benchmarks.md")
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	r, err := parse(string(rows))
	if err != nil {
		return err
	}
	filled, err := fill(string(text), r)
	if err != nil {
		return err
	}
	for path, content := range map[string]string{page: filled, filepath.Join(args[0], "benchmarks.svg"): r.drawBars(), filepath.Join(args[0], "growth.svg"): r.drawLines()} {
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			return err
		}
	}
	return nil
}

const begin, end = "<!-- begin: make bench, ", "<!-- end: make bench -->\n"

// fill writes the sections of a page that are made of the rows.
func fill(page string, r results) (string, error) {
	var filled strings.Builder
	for {
		head, rest, found := strings.Cut(page, begin)
		filled.WriteString(head)
		if !found {
			return filled.String(), nil
		}
		name, rest, _ := strings.Cut(rest, " -->\n")
		_, tail, closed := strings.Cut(rest, end)
		section, known := sections[name]
		if !closed || !known {
			return "", fmt.Errorf("the section %q has no end, or is not one that is made of the rows", name)
		}
		filled.WriteString(begin + name + " -->\n\n" + section(r) + "\n" + end)
		page = tail
	}
}
