// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package cluster has the commands on what hosts share: the pools of allocnet-ipam, and the networks
// that span hosts.
package cluster

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/allocnet/allocnet/cmd/allocnet/cli"
)

// New returns the command cluster.
func New(s *cli.Settings) *cobra.Command {
	return cli.WithCommands(&cobra.Command{
		Use:   "cluster",
		Short: "Show, measure and leave the networks that span hosts",
		Long: `Show, measure or remove what connects this host with others: the routes to the blocks of
other hosts, for the pools of allocnet-ipam whose mode is routed, vxlan or auto. The agent
keeps these routes.`,
	}, newStatus(s), newPing(s), newLeave(s))
}

// printApart prints things with an empty line between two.
func printApart[T any](w io.Writer, all []T, print func(T) error) error {
	for i, one := range all {
		if i > 0 {
			if _, err := fmt.Fprintln(w); err != nil {
				return err
			}
		}
		if err := print(one); err != nil {
			return err
		}
	}
	return nil
}
