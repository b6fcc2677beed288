// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/allocnet/allocnet/cmd/allocnet/cli"
	"github.com/allocnet/allocnet/cmd/allocnet/network"
	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/selection"
)

func completeFlags(s *cli.Settings, cmd *cobra.Command) {
	for name, values := range map[string]cli.Complete{
		"network": network.Names, "primary": network.Names, "networks": networkLists,
		"allocation": eventIDs, "interface": interfaces, "publish": portLabels, "live": recordedIDs,
		"job":       identities(func(a *hook.Allocation) string { return a.Identity.Job }),
		"namespace": identities(func(a *hook.Allocation) string { return a.Identity.Namespace }),
		"dns": func(s *cli.Settings, cmd *cobra.Command, args []string, word string) []string {
			return append([]string{hook.PrimaryDNS, hook.MergedDNS}, network.Names(s, cmd, args, word)...)
		},
		"executor": func(*cli.Settings, *cobra.Command, []string, string) []string {
			return []string{hook.ExecutorAuto, hook.ExecutorPlugins}
		},
		// A node that is gone is known to the store only, which no completion asks. It is no file.
		"node":   func(*cli.Settings, *cobra.Command, []string, string) []string { return nil },
		"phase":  func(*cli.Settings, *cobra.Command, []string, string) []string { return phases },
		"type":   func(*cli.Settings, *cobra.Command, []string, string) []string { return cniconf.DraftTypes },
		"format": func(*cli.Settings, *cobra.Command, []string, string) []string { return mapFormats },
		"log-level": func(*cli.Settings, *cobra.Command, []string, string) []string {
			return []string{"trace", "debug", "info", "warn", "error", "off"}
		},
	} {
		if cmd.Flags().Lookup(name) != nil || cmd.PersistentFlags().Lookup(name) != nil {
			_ = cmd.RegisterFlagCompletionFunc(name, s.Completion(values)) // fails only for a flag that does not exist, or twice
		}
	}
	for _, child := range cmd.Commands() {
		completeFlags(s, child)
	}
}

// recorded returns the allocations that this user can read.
func recorded(s *cli.Settings, cmd *cobra.Command) []*hook.Allocation {
	engine, err := s.Reader(io.Discard)
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

func recordedIDs(s *cli.Settings, cmd *cobra.Command, args []string, word string) []string {
	return identities(func(a *hook.Allocation) string { return a.ID })(s, cmd, args, word)
}

func identities(of func(*hook.Allocation) string) cli.Complete {
	return func(s *cli.Settings, cmd *cobra.Command, _ []string, _ string) []string {
		var values []string
		for _, a := range recorded(s, cmd) {
			if value := of(a); value != "" {
				values = append(values, value)
			}
		}
		return cli.Distinct(values)
	}
}

// interfaces returns those of the allocation that the first argument selects, without that of its primary.
func interfaces(s *cli.Settings, cmd *cobra.Command, args []string, _ string) []string {
	if len(args) == 0 {
		return nil
	}
	return interfacesOf(s, cmd, args[0], false)
}

func interfacesOf(s *cli.Settings, cmd *cobra.Command, id string, withPrimary bool) (names []string) {
	engine, err := s.Reader(io.Discard)
	if err != nil {
		return nil
	}
	if id, err = engine.Resolve(id); err != nil {
		return nil
	}
	a, err := engine.Status(cmd.Context(), id)
	if err != nil {
		return nil
	}
	for _, n := range a.Attachments {
		if withPrimary || !n.Primary {
			names = append(names, n.Interface)
		}
	}
	return names
}

// portLabels returns the labels that the selected networks take, as the beginning of a
// port.
func portLabels(_ *cli.Settings, cmd *cobra.Command, _ []string, _ string) []string {
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
	return cli.Distinct(labels)
}

// networkLists returns the word with each network as the last one of its list.
func networkLists(s *cli.Settings, cmd *cobra.Command, args []string, word string) []string {
	before := word[:strings.LastIndex(word, ",")+1]
	var lists []string
	for _, name := range network.Names(s, cmd, args, word) {
		lists = append(lists, before+name)
	}
	return lists
}
