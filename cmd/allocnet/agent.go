// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"cmp"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/agent/config"
	"github.com/allocnet/allocnet/agent/daemon"
)

// agentFlags are the agent's own. The flags of all commands override the
// configuration as well.
type agentFlags struct {
	config  string
	socket  string
	check   bool
	prepare bool
}

func newAgent(s *settings) *cobra.Command {
	var f agentFlags
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
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			load := func() (config.Config, error) { return f.load(cmd.Flags(), s) }
			if f.check {
				return s.checkConfig(cmd, f.config, load)
			}
			if f.prepare {
				return daemon.Prepare(load, cmd.ErrOrStderr())
			}
			d, err := daemon.New(load, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			return d.Run(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&f.config, "config", config.DefaultDir, "configuration: a .hcl file, or a directory of .hcl files")
	cmd.Flags().StringVar(&f.socket, "socket", api.DefaultSocket, "path of the socket")
	cmd.Flags().BoolVar(&f.check, "check-config", false, "validate the configuration, and the files and the main network that it names, and exit")
	cmd.Flags().BoolVar(&f.prepare, "prepare", false, "load kernel modules and set owner and group of the existing socket, and exit")
	cmd.MarkFlagsMutuallyExclusive("check-config", "prepare")
	return cmd
}

// load reads the configuration; flags and environment variables override it.
func (f *agentFlags) load(flags *pflag.FlagSet, s *settings) (config.Config, error) {
	read := config.LoadDefault
	if flags.Changed("config") { // or its environment variable
		read = config.Load
	}
	c, err := read(f.config)
	if err != nil {
		return c, err
	}
	if len(c.ConfDirs) == 0 || flags.Changed("conf-dir") {
		c.ConfDirs = s.confDirs()
	}
	override(flags, "state-dir", &c.StateDir, s.stateDir)
	override(flags, "executor", &c.Executor, s.executor)
	override(flags, "call-timeout", &c.CallTimeout, s.callTimeout)
	override(flags, "socket", &c.Socket.Path, f.socket)
	if flags.Changed("plugin-dir") {
		c.PluginDirs = s.pluginDirs()
	}
	if flags.Changed("log-level") {
		c.LogLevel = s.logLevel
	}
	if flags.Changed("json") {
		c.LogFormat = "json"
	}
	c.LogLevel = cmp.Or(c.LogLevel, "info")
	return c, nil
}

// override sets a field that the configuration does not set, or whose flag is
// given.
func override[T comparable](flags *pflag.FlagSet, name string, field *T, value T) {
	var zero T
	if *field == zero || flags.Changed(name) {
		*field = value
	}
}

// validJSON is what agent --check-config --json prints.
type validJSON struct {
	Config  string `json:"config"`
	Outcome string `json:"outcome"`
}

func (s *settings) checkConfig(cmd *cobra.Command, path string, load daemon.Load) error {
	c, err := load()
	if err == nil {
		err = daemon.CheckPaths(c)
	}
	if err != nil {
		return err
	}
	if s.json {
		return printJSON(cmd.OutOrStdout(), validJSON{path, "valid"})
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is valid\n", path)
	return err
}
