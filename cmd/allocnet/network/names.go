// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package network has the commands on networks: what the configuration directories have, and what is written and removed there.
package network

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/allocnet/allocnet/cmd/allocnet/cli"
	"github.com/allocnet/allocnet/cniconf"
)

// Names returns those of the networks that can be attached, for completion.
func Names(s *cli.Settings, _ *cobra.Command, _ []string, _ string) []string {
	return names(s, func(n *cniconf.Network) bool { return !n.IsOwn() })
}

// allNames returns those of all networks.
func allNames(s *cli.Settings, _ *cobra.Command, _ []string, _ string) []string {
	return names(s, func(*cniconf.Network) bool { return true })
}

func names(s *cli.Settings, selected func(*cniconf.Network) bool) (names []string) {
	catalog, err := cniconf.Load(s.ConfDirs()...)
	if err != nil {
		return nil
	}
	for _, n := range catalog.Networks {
		if selected(n) {
			names = append(names, n.Name)
		}
	}
	slices.Sort(names)
	return names
}
