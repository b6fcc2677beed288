// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/selection"
)

// complete returns values that may complete a word; args are those before it.
type complete func(cmd *cobra.Command, args []string, word string) []string

// completion is for cobra. A shell gets no error: what this user cannot read completes
// nothing.
func (s *settings) completion(values complete) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if fromEnvironment(cmd.Flags()) != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		found := slices.DeleteFunc(slices.Clone(values(cmd, args, word)), func(v string) bool { return !strings.HasPrefix(v, word) })
		directive := cobra.ShellCompDirectiveNoFileComp
		if slices.ContainsFunc(found, func(v string) bool { return strings.HasSuffix(v, "=") }) {
			directive |= cobra.ShellCompDirectiveNoSpace // a port follows the label
		}
		return found, directive
	}
}

// distinct returns the values in their order, each once.
func distinct(values []string) []string {
	slices.Sort(values)
	return slices.Compact(values)
}

// completeFirst completes the first argument of a command.
func (s *settings) completeFirst(values complete) cobra.CompletionFunc {
	return s.completion(func(cmd *cobra.Command, args []string, word string) []string {
		if len(args) > 0 {
			return nil
		}
		return values(cmd, args, word)
	})
}

// completeAll completes all arguments, each value once.
func (s *settings) completeAll(values complete) cobra.CompletionFunc {
	return s.completion(func(cmd *cobra.Command, args []string, word string) []string {
		return slices.DeleteFunc(values(cmd, args, word), func(value string) bool { return slices.Contains(args, value) })
	})
}

// completeFlags completes the flags of all commands below one.
func (s *settings) completeFlags(cmd *cobra.Command) {
	for name, values := range map[string]complete{
		"network": s.networkNames, "primary": s.networkNames, "networks": s.networkLists,
		"allocation": s.eventIDs, "interface": s.interfaces, "publish": portLabels, "live": s.recordedIDs,
		"job":       s.identities(func(a *hook.Allocation) string { return a.Identity.Job }),
		"namespace": s.identities(func(a *hook.Allocation) string { return a.Identity.Namespace }),
		"dns":       s.dnsSelections,
		"executor": func(*cobra.Command, []string, string) []string {
			return []string{hook.ExecutorAuto, hook.ExecutorPlugins}
		},
		// A node that is gone is known to the store only, which no completion asks. It is no file.
		"node":   func(*cobra.Command, []string, string) []string { return nil },
		"phase":  func(*cobra.Command, []string, string) []string { return phases },
		"format": func(*cobra.Command, []string, string) []string { return mapFormats },
		"log-level": func(*cobra.Command, []string, string) []string {
			return []string{"trace", "debug", "info", "warn", "error", "off"}
		},
	} {
		if cmd.Flags().Lookup(name) != nil || cmd.PersistentFlags().Lookup(name) != nil {
			_ = cmd.RegisterFlagCompletionFunc(name, s.completion(values)) // fails only for a flag that does not exist, or twice
		}
	}
	for _, child := range cmd.Commands() {
		s.completeFlags(child)
	}
}

func (s *settings) dnsSelections(cmd *cobra.Command, args []string, word string) []string {
	return append([]string{hook.PrimaryDNS, hook.MergedDNS}, s.networkNames(cmd, args, word)...)
}

// recorded returns the allocations that this user can read.
func (s *settings) recorded(cmd *cobra.Command) []*hook.Allocation {
	engine, err := s.reader(io.Discard)
	if err != nil {
		return nil
	}
	var all []*hook.Allocation
	for a, err := range engine.List(cmd.Context()) {
		if err == nil {
			all = append(all, a)
		}
	}
	return all
}

func (s *settings) recordedIDs(cmd *cobra.Command, args []string, word string) []string {
	return s.identities(func(a *hook.Allocation) string { return a.ID })(cmd, args, word)
}

// identities returns the different values that the allocations have.
func (s *settings) identities(of func(*hook.Allocation) string) complete {
	return func(cmd *cobra.Command, _ []string, _ string) []string {
		var values []string
		for _, a := range s.recorded(cmd) {
			if value := of(a); value != "" {
				values = append(values, value)
			}
		}
		return distinct(values)
	}
}

// interfaces returns those of the allocation that the first argument selects.
func (s *settings) interfaces(cmd *cobra.Command, args []string, _ string) []string {
	if len(args) == 0 {
		return nil
	}
	engine, err := s.reader(io.Discard)
	if err != nil {
		return nil
	}
	id, err := engine.Resolve(args[0])
	if err != nil {
		return nil
	}
	a, err := engine.Status(cmd.Context(), id)
	if err != nil {
		return nil
	}
	var names []string
	for _, n := range a.Attachments {
		if !n.Primary {
			names = append(names, n.Interface)
		}
	}
	return names
}

// portLabels returns the labels that the selected networks take, as the beginning of a
// port.
func portLabels(cmd *cobra.Command, _ []string, _ string) []string {
	var labels []string
	for _, name := range []string{"primary", "networks"} {
		text, err := cmd.Flags().GetString(name)
		if err != nil {
			continue
		}
		elements, err := selection.Parse(text)
		if err != nil {
			continue
		}
		for _, e := range elements {
			for _, label := range e.Ports {
				labels = append(labels, label+"=")
			}
		}
	}
	return distinct(labels)
}

// networkNames returns the networks of the CNI configuration directories.
func (s *settings) networkNames(*cobra.Command, []string, string) []string {
	catalog, err := cniconf.Load(s.confDirs()...)
	if err != nil {
		return nil
	}
	var names []string
	for _, n := range catalog.Networks {
		names = append(names, n.Name)
	}
	slices.Sort(names)
	return names
}

// networkLists returns the word with each network as the last one of its list.
func (s *settings) networkLists(cmd *cobra.Command, args []string, word string) []string {
	before := word[:strings.LastIndex(word, ",")+1]
	var lists []string
	for _, name := range s.networkNames(cmd, args, word) {
		lists = append(lists, before+name)
	}
	return lists
}
