// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"

	"github.com/spf13/cobra"

	"github.com/allocnet/allocnet/cmd/allocnet/cli"
	"github.com/allocnet/allocnet/state"
)

func newExec(s *cli.Settings) *cobra.Command {
	return &cobra.Command{
		Use:   "exec ID -- CMD [ARG...]",
		Short: "Run a command of the host in the networks of an allocation",
		Long: `Run a command in the network namespace of an allocation, with its interfaces and routes.
All else is the host's: programs, files and users. So a program that an allocation lacks,
such as ss or curl, can be used on its networks.

Where allocnet has made the namespace, the command has its name servers in
/etc/resolv.conf. Elsewhere, as in the groups of a Nomad job, those are in the
containers of the tasks, and the command has the host's.

Signals are forwarded to the command. The exit code is the command's, 128+N if signal N
killed it, 127 if it is not found, 126 if it cannot be executed, and 125 if allocnet itself
failed. The first characters of an ID are enough if no other ID begins with them.`,
		Example: `  allocnet exec web-1 -- ip addr
  allocnet exec web-1 -- cat /etc/resolv.conf`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 {
				return cli.Usage(errors.New("want the ID of an allocation and a command, as in: allocnet exec web-1 -- ip addr"))
			}
			return nil
		},
		ValidArgsFunction: s.CompleteFirst(recordedIDs),
		RunE:              func(cmd *cobra.Command, args []string) error { return execIn(cmd, s, args[0], args[1:]) },
	}
}

func execIn(cmd *cobra.Command, s *cli.Settings, id string, args []string) error {
	engine, err := s.Engine(cmd.ErrOrStderr())
	if err != nil {
		return execFailure(err)
	}
	if id, err = engine.Resolve(id); err != nil {
		return execFailure(err)
	}
	allocation, err := engine.Status(cmd.Context(), id)
	if err != nil {
		return execFailure(err)
	}
	path, closeNamespace, err := engine.OpenNamespace(id)
	if err != nil {
		return execFailure(err)
	}
	defer closeNamespace() //nolint:errcheck // only entered
	allocation.Netns = path
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, forwarded...)
	defer signal.Stop(signals)
	return runCommand(allocation, args, cmd.OutOrStdout(), cmd.ErrOrStderr(), signals)
}

// execFailure is runFailure; an allocation that is gone meanwhile keeps its exit code.
func execFailure(err error) error {
	if errors.Is(err, state.ErrNotFound) {
		return err
	}
	return runFailure(fmt.Errorf("the command was not run: %w", err))
}
