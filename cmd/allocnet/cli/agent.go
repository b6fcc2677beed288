// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cli

import (
	"cmp"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/agent/client"
	"github.com/allocnet/allocnet/agent/config"
)

// AgentFlags say where the configuration of the agent is, and the socket that overrides it. The flags
// of all commands override it as well.
type AgentFlags struct{ Config, Socket string }

// Load reads the configuration; flags and environment variables override it.
func (f *AgentFlags) Load(flags *pflag.FlagSet, s *Settings) (config.Config, error) {
	read := config.LoadDefault
	if flags.Changed("config") { // or its environment variable
		read = config.Load
	}
	c, err := read(f.Config)
	if err != nil {
		return c, err
	}
	if len(c.ConfDirs) == 0 || flags.Changed("conf-dir") {
		c.ConfDirs = s.ConfDirs()
	}
	override(flags, "state-dir", &c.StateDir, s.StateDir)
	override(flags, "executor", &c.Executor, s.Executor)
	override(flags, "call-timeout", &c.CallTimeout, s.CallTimeout)
	override(flags, "socket", &c.Socket.Path, f.Socket)
	if flags.Changed("plugin-dir") {
		c.PluginDirs = s.PluginDirs()
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

// AgentSocket is the flag that says where the agent is.
type AgentSocket struct{ Path string }

// Register adds the flag.
func (f *AgentSocket) Register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.Path, "socket", api.DefaultSocket, "path of the agent's socket")
}

// Client returns a client of the agent.
func (f *AgentSocket) Client() *client.Client { return client.New(f.Path) }
