// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/agent/config"
	"github.com/allocnet/allocnet/agent/daemon"
	"github.com/allocnet/allocnet/cmd/allocnet/cli"
)

func newAgent(s *cli.Settings) *cobra.Command {
	var f cli.AgentFlags
	var check, prepare bool
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Serve the API, and garbage-collect dead allocations",
		Long: `Serve the API on a unix socket, and garbage-collect dead allocations at the start
and every minute. No other command needs the agent, and every command works while
it runs.

Flags and environment variables override the configuration. SIGHUP reloads the
configuration: log level and reconciler change immediately, the log lists the
changes that need a restart. SIGTERM completes the requests in flight, then stops.
Under systemd the agent uses the socket of its socket unit, and notifies systemd of
its readiness and to its watchdog. The unit first runs "allocnet agent --prepare" with
all rights of root.`,
		Example: `  allocnet agent --check-config
  allocnet agent --check-config --config /etc/allocnet.d --json`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			load := func() (config.Config, error) { return f.Load(cmd.Flags(), s) }
			if check {
				return checkConfig(s, cmd, f.Config, load)
			}
			if prepare {
				return daemon.Prepare(load, cmd.ErrOrStderr())
			}
			d, err := daemon.New(load, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			return d.Run(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&f.Config, "config", config.DefaultDir, "configuration: a .hcl file, or a directory of .hcl files")
	cmd.Flags().StringVar(&f.Socket, "socket", api.DefaultSocket, "path of the socket")
	cmd.Flags().BoolVar(&check, "check-config", false, "validate the configuration, and the files and the main network that it names, and exit")
	cmd.Flags().BoolVar(&prepare, "prepare", false, "load kernel modules and set owner and group of the existing socket, and exit")
	cmd.MarkFlagsMutuallyExclusive("check-config", "prepare")
	return cmd
}

// validJSON is what agent --check-config --json prints.
type validJSON struct {
	Config  string `json:"config"`
	Outcome string `json:"outcome"`
}

func checkConfig(s *cli.Settings, cmd *cobra.Command, path string, load daemon.Load) error {
	c, err := load()
	if err == nil {
		err = daemon.CheckPaths(c)
	}
	if err != nil {
		return err
	}
	if s.JSON {
		return cli.PrintJSON(cmd.OutOrStdout(), validJSON{path, "valid"})
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is valid\n", path)
	return err
}
