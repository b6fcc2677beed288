// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-iptables/iptables"
)

// iptablesListing has the rules of chains as iptables-save prints them, without the name of
// the chain, by table and chain.
type iptablesListing map[string]map[string][]string

// listIPTables lists all rules of a family in this network namespace, but for the tables that iptables cannot
// list, which it names.
func listIPTables(ctx context.Context, kind IPTables, family iptables.Protocol) (listing iptablesListing, unlisted []string, err error) {
	program := kind.program(family, "-save")
	cmd := exec.CommandContext(ctx, program)
	cmd.WaitDelay = time.Second // a child of it may live on
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w: %s", program, err, bytes.TrimSpace(stderr.Bytes()))
	}
	listing, unlisted = parseIPTables(string(out))
	return listing, unlisted, nil
}

// parseIPTables reads what iptables-save prints, and returns the tables with rules that only nft understands: what
// these have is unknown.
func parseIPTables(text string) (listing iptablesListing, unlisted []string) {
	listing = iptablesListing{}
	var table map[string][]string
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, "# Table ") && strings.Contains(line, "incompatible"):
			name, _, _ := strings.Cut(strings.TrimPrefix(line, "# Table `"), "'")
			unlisted = append(unlisted, name)
		case strings.HasPrefix(line, "*"):
			table = map[string][]string{}
			listing[line[1:]] = table
		case strings.HasPrefix(line, ":") && table != nil:
			chain, _, _ := strings.Cut(line[1:], " ")
			table[chain] = []string{}
		case strings.HasPrefix(line, "-A ") && table != nil:
			chain, rule, _ := strings.Cut(line[len("-A "):], " ")
			table[chain] = append(table[chain], rule)
		}
	}
	return listing, unlisted
}

// hasChain tells whether a table has a chain.
func (l iptablesListing) hasChain(table, chain string) bool { return l[table][chain] != nil }

// has tells whether a chain has all of the lines.
func (l iptablesListing) has(table, chain string, lines []string) bool {
	return !slices.ContainsFunc(lines, func(line string) bool { return !slices.Contains(l[table][chain], line) })
}

// inOrder tells whether a chain has all of the lines in their order, perhaps with others.
func (l iptablesListing) inOrder(table, chain string, lines []string) bool {
	for _, present := range l[table][chain] {
		if len(lines) > 0 && present == lines[0] {
			lines = lines[1:]
		}
	}
	return len(lines) == 0
}
