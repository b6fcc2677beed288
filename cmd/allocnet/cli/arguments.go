// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cli

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
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

// flagValues has what flags want, by the types that pflag calls them.
var flagValues = map[string]string{
	"bool":     "true or false",
	"duration": "a duration, such as 90s or 5m",
	"int":      "a whole number",
	"uint64":   "a whole number, 0 or more",
}

func flagError(cmd *cobra.Command, err error) error {
	if missing, ok := errors.AsType[*pflag.NotExistError](err); ok {
		if like := flagsLike(cmd.Flags(), missing.GetSpecifiedName()); len(like) > 0 {
			err = fmt.Errorf("%w; did you mean %s?", err, strings.Join(like, " or "))
		}
	}
	if value, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		err = valueError("--"+value.GetFlag().Name+" "+fmt.Sprintf("%q", value.GetValue()), value)
	}
	return Usage(fmt.Errorf("%w (see: %s --help)", err, cmd.CommandPath()))
}

// valueError says of a value, after what gave it, what would be right.
func valueError(given string, err *pflag.InvalidValueError) error {
	if want := flagValues[err.GetFlag().Value.Type()]; want != "" {
		return fmt.Errorf("%s: want %s", given, want)
	}
	return fmt.Errorf("%s: %w", given, err.Unwrap())
}

// flagsLike returns the flags that a mistyped one is like, as cobra finds the commands.
func flagsLike(flags *pflag.FlagSet, mistyped string) []string {
	names := &cobra.Command{SuggestionsMinimumDistance: min(2, len(mistyped)/2)}
	flags.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
		}
	})
	like := names.SuggestionsFor(mistyped)
	for i := range like {
		like[i] = "--" + like[i]
	}
	return like
}

// allSet ends cobra's error about flags of which only one can be given.
var allSet = regexp.MustCompile(`\[([^]]+)\] were all set$`)

func requireOne(cmd *cobra.Command) error {
	err := cmd.ValidateFlagGroups()
	if err == nil {
		return nil
	}
	if set := allSet.FindStringSubmatch(err.Error()); set != nil {
		err = fmt.Errorf("--%s: want one of them", strings.Join(strings.Fields(set[1]), " and --"))
	}
	return Usage(err)
}
