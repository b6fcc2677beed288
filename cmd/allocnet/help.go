// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/allocnet/allocnet/cmd/allocnet/cli"
)

// textColumns is the width of paragraphs on a terminal that is wider.
const textColumns = 90

func fitHelp(cmd *cobra.Command, columns int) {
	cmd.Long = fit(cmd.Long, min(columns, textColumns))
	wrapped := fmt.Sprintf(".FlagUsagesWrapped %d |", columns)
	cmd.SetUsageTemplate(strings.ReplaceAll(cmd.UsageTemplate(), ".FlagUsages |", wrapped))
}

// fit breaks the paragraphs of a text anew for a width. Lines that are indented stay as they are.
func fit(s string, columns int) string {
	var lines, paragraph []string
	for line := range strings.Lines(s + "\n\n") {
		line = strings.TrimSuffix(line, "\n")
		if line != "" && line[0] != ' ' {
			paragraph = append(paragraph, line)
			continue
		}
		if len(paragraph) > 0 {
			lines = append(lines, cli.Wrap(strings.Join(paragraph, " "), columns)...)
		}
		lines, paragraph = append(lines, line), nil
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n")
}
