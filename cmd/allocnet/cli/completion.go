// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// Complete returns values that may complete a word; args are those before it.
type Complete func(s *Settings, cmd *cobra.Command, args []string, word string) []string

// Completion is for cobra. A shell gets no error: what this user cannot read completes
// nothing.
func (s *Settings) Completion(values Complete) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if fromEnvironment(cmd.Flags()) != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		found := slices.DeleteFunc(slices.Clone(values(s, cmd, args, word)), func(v string) bool { return !strings.HasPrefix(v, word) })
		directive := cobra.ShellCompDirectiveNoFileComp
		if slices.ContainsFunc(found, func(v string) bool { return strings.HasSuffix(v, "=") || strings.HasSuffix(v, ":") }) {
			directive |= cobra.ShellCompDirectiveNoSpace // a port follows
		}
		return found, directive
	}
}

// Distinct returns the values in their order, each once.
func Distinct(values []string) []string {
	slices.Sort(values)
	return slices.Compact(values)
}

// CompleteFirst completes the first argument of a command.
func (s *Settings) CompleteFirst(values Complete) cobra.CompletionFunc {
	return s.Completion(func(s *Settings, cmd *cobra.Command, args []string, word string) []string {
		if len(args) > 0 {
			return nil
		}
		return values(s, cmd, args, word)
	})
}

// CompleteAll completes all arguments, each value once.
func (s *Settings) CompleteAll(values Complete) cobra.CompletionFunc {
	return s.Completion(func(s *Settings, cmd *cobra.Command, args []string, word string) []string {
		return slices.DeleteFunc(values(s, cmd, args, word), func(value string) bool { return slices.Contains(args, value) })
	})
}
