// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// WantArguments is the argument check of a command that wants so many, which are described.
func WantArguments(least, most int, want string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return Usage(fmt.Errorf("got %d arguments: want %s", len(args), want))
		}
		return nil
	}
}

// WithCommands makes a command of those below it: without one it prints its help.
func WithCommands(cmd *cobra.Command, below ...*cobra.Command) *cobra.Command {
	cmd.Args, cmd.RunE = knownCommand, func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd.AddCommand(below...)
	return cmd
}

// KnownTopic is the argument check of help, whose arguments are the names of a command.
func KnownTopic(cmd *cobra.Command, args []string) error {
	at := cmd.Root()
	for i := range args {
		below, rest, err := at.Find(args[i : i+1])
		if err != nil || len(rest) > 0 || below == at {
			return knownCommand(at, args[i:])
		}
		at = below
	}
	return nil
}

// knownCommand is the argument check of a command that only has commands below it: an
// argument is a mistyped one.
func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	cmd.SuggestionsMinimumDistance = min(2, len(args[0])/2) // mistyped letters
	suggested := cmd.SuggestionsFor(args[0])
	text := fmt.Sprintf("unknown command %q", args[0])
	if len(suggested) > 0 {
		text += fmt.Sprintf("; did you mean %s?", strings.Join(suggested, " or "))
	}
	return Usage(fmt.Errorf("%s (see: %s --help)", text, cmd.CommandPath()))
}

// NoArguments is the argument check of a command without any.
func NoArguments(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return Usage(fmt.Errorf("got %q: want no arguments", args))
	}
	return nil
}
