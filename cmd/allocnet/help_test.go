// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/allocnet/allocnet/cmd/allocnet/cli"
)

// TestFitHelp: what a terminal of 80 columns shows of each command's help has no longer lines, but those
// that are indented, and says the same.
func TestFitHelp(t *testing.T) {
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		words := strings.Fields(cmd.Long)
		fitHelp(cmd, 80)
		if strings.Join(strings.Fields(cmd.Long), " ") != strings.Join(words, " ") {
			t.Errorf("%s: %s", cmd.CommandPath(), cmd.Long)
		}
		var out bytes.Buffer
		cmd.SetOut(&out)
		if err := cmd.Help(); err != nil {
			t.Fatal(err)
		}
		_, flags, _ := strings.Cut(out.String(), "\nFlags:\n")
		for line := range strings.Lines(cmd.Long + "\n" + flags) {
			if utf8.RuneCountInString(line) > 81 && (line[0] != ' ' || strings.Contains(flags, line)) {
				t.Errorf("%s: too long: %s", cmd.CommandPath(), line)
			}
		}
		for _, child := range cmd.Commands() {
			check(child)
		}
	}
	check(newRoot(&cli.Settings{}))
	const text = "one two\nthree:\n  a  list\nfour\n\nfive"
	if got := fit(text, 9); got != "one two\nthree:\n  a  list\nfour\n\nfive" {
		t.Errorf("%q", got)
	}
	if got := fit(text, 20); got != "one two three:\n  a  list\nfour\n\nfive" {
		t.Errorf("%q", got)
	}
}
