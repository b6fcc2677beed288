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
)

// agentFlags are the agent's own; those that every command has win over the
// configuration as well.
type agentFlags struct {
	config string
	socket string
	check  bool
}

func newAgent(s *settings) *cobra.Command {
	var f agentFlags
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Serve other programs of the host, and take down what ended without teardown",
		Long: `Serve the API on a unix socket, and at the start and every minute take down what
ended without teardown. No other command needs the agent, and all may be used
beside it.

Flags and environment win over the configuration. SIGHUP reads it again: the
log level and the reconciler follow at once, the rest says that it needs a
restart. SIGTERM finishes what is at work, then stops. Under systemd the agent
takes the socket of its socket unit, and tells when it is ready and alive.`,
		Example: `  allocnet agent --check-config
  allocnet agent --check-config --config /etc/allocnet.d --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			load := func() (config.Config, error) { return f.load(cmd.Flags(), s) }
			c, err := load()
			if err != nil {
				return err
			}
			if f.check {
				return s.reportConfig(cmd, f.config)
			}
			service, err := newService(c, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			return service.run(cmd.Context(), load)
		},
	}
	cmd.Flags().StringVar(&f.config, "config", config.DefaultDir, "configuration: a .hcl file, or a directory of them")
	cmd.Flags().StringVar(&f.socket, "socket", api.DefaultSocket, "path of the socket")
	cmd.Flags().BoolVar(&f.check, "check-config", false, "say what is wrong with the configuration, and stop")
	return cmd
}

// load reads the configuration, with what flags and environment say over it.
func (f *agentFlags) load(flags *pflag.FlagSet, s *settings) (config.Config, error) {
	read := config.LoadDefault
	if flags.Changed("config") { // or the environment names it
		read = config.Load
	}
	c, err := read(f.config)
	if err != nil {
		return c, err
	}
	if len(c.ConfDirs) == 0 || flags.Changed("conf-dir") {
		c.ConfDirs = s.confDirs()
	}
	over(flags, "state-dir", &c.StateDir, s.stateDir)
	over(flags, "call-timeout", &c.CallTimeout, s.callTimeout)
	over(flags, "socket", &c.Socket.Path, f.socket)
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

// over sets a field that the configuration leaves open, or that a flag was
// given for.
func over[T comparable](flags *pflag.FlagSet, name string, field *T, value T) {
	var zero T
	if *field == zero || flags.Changed(name) {
		*field = value
	}
}

func (s *settings) reportConfig(cmd *cobra.Command, path string) error {
	if s.json {
		return printJSON(cmd.OutOrStdout(), map[string]string{"config": path, "outcome": "valid"})
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s is valid\n", path)
	return err
}
