// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package network

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/allocnet/allocnet/cmd/allocnet/cli"
	"github.com/allocnet/allocnet/internal/hostns"
)

func newNetworkRemove(s *cli.Settings) *cobra.Command {
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "rm NAME",
		Short: "Remove a network that nothing uses",
		Long: `Remove the configuration of a network, and what it has left on the host: its bridge, and
the notes of host-local.

A network that is in use is refused, and what uses it is named: attachments, also those of
other runtimes, leases, and networks of allocnet-cni that name it. A bridge stays if allocnet
has not made it itself, or if it has a port, an address, or a link on it that is not the
network's; the reason is printed.`,
		Example: `  allocnet network rm backup --dry-run
  allocnet network rm backup`,
		Args:              cli.WantArguments(1, 1, "the name of the network"),
		ValidArgsFunction: s.CompleteFirst(allNames),
		RunE:              func(cmd *cobra.Command, args []string) error { return removeNetwork(cmd, s, args[0], dryRun) },
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "print what would be removed, remove nothing")
	return cmd
}

func removeNetwork(cmd *cobra.Command, s *cli.Settings, name string, dryRun bool) error {
	engine, err := s.Engine(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	if err := hostns.Check(); err != nil {
		return err
	}
	removed, err := engine.RemoveNetwork(cmd.Context(), name, dryRun)
	if err != nil {
		return err
	}
	verb := "removed"
	if dryRun {
		verb = "would be removed"
	}
	return s.Output(cmd.OutOrStdout(), removed, func(w io.Writer, _ cli.Terminal) error {
		var lines []string
		for _, what := range removed.Removed {
			lines = append(lines, fmt.Sprintf("%s: %s", verb, what))
		}
		for _, what := range removed.Kept {
			lines = append(lines, "stays: "+what)
		}
		return cli.PrintLines(w, lines...)
	})
}
