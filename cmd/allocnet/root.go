// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/allocnet/allocnet/cmd/allocnet/cli"
	"github.com/allocnet/allocnet/cmd/allocnet/cluster"
	"github.com/allocnet/allocnet/cmd/allocnet/network"
	"github.com/allocnet/allocnet/cmd/allocnet/traffic"
	"github.com/allocnet/allocnet/internal/version"
)

const rootLong = `allocnet attaches a network namespace to several CNI networks, maps its ports,
and removes all of it again.

A network is a .conflist, .conf or .json file in a CNI configuration directory, and
has the name in the file. Every flag has an environment variable: ALLOCNET_CONF_DIR for
--conf-dir, and so on.

Exit codes:
  0  done
  1  failed; partial work is undone, or stays recorded for the next attempt
  2  refused: wrong usage, or a request that cannot be met; nothing was done
  3  the allocation is not set up here
  4  of policy test: it is denied
run, exec and systemd-run --wait return the exit code of their command.`

func execute(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return cli.Execute(ctx, newRoot, args, stdout, stderr)
}

func newRoot(s *cli.Settings) *cobra.Command {
	root := &cobra.Command{
		Use:     "allocnet",
		Short:   "Attach network namespaces to several CNI networks",
		Long:    rootLong,
		Version: version.Version,
	}
	root.SetVersionTemplate(ownVersion().String())
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if t := cli.TerminalOf(cmd.OutOrStdout()); t.Columns > 0 {
			fitHelp(cmd, t.Columns)
		}
		help(cmd, args)
	})
	addCommands(s, root)
	s.Prepare(root)
	completeFlags(s, root)
	return root
}

func addCommands(s *cli.Settings, root *cobra.Command) {
	cli.WithCommands(root, newRetry(s), cli.NewAnnounce())
	for _, group := range []struct {
		id, title string
		commands  []*cobra.Command
	}{
		{"allocations", "Allocations:", []*cobra.Command{newRun(s), newAttach(s), newDetach(s), newStatus(s), newMap(s), newCheck(s), traffic.NewReach(s, recordedIDs), newExec(s), newCapture(s), newRepair(s), newEvents(s)}},
		{"networks", "Networks:", []*cobra.Command{network.New(s), traffic.NewPolicy(s, recordedIDs), newConf(s), cluster.NewIPAM(s), cluster.New(s)}},
		{"host", "The host:", []*cobra.Command{newDoctor(s), newUI(s), newGC(s), newCleanup(s)}},
		{"integrations", "Daemon and integrations:", []*cobra.Command{newAgent(s), newPlugin(s), newSystemdRun(s)}},
		{"program", "The program:", []*cobra.Command{newVersion(s), newMan()}},
	} {
		root.AddGroup(&cobra.Group{ID: group.id, Title: group.title})
		for _, command := range group.commands {
			command.GroupID = group.id
			root.AddCommand(command)
		}
	}
	root.SetCompletionCommandGroupID("program")
	root.SetHelpCommandGroupID("program")
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, command := range root.Commands() {
		switch command.Name() { // cobra's own do not say what they do not know
		case "help":
			command.Args = cli.KnownTopic
		case "completion":
			cli.WithCommands(command)
		}
	}
}
