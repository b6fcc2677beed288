// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"errors"
	"os"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"github.com/allocnet/allocnet/cmd/allocnet/cli"
	"github.com/allocnet/allocnet/nomad/driver"
)

func newPlugin(s *cli.Settings) *cobra.Command {
	return &cobra.Command{
		Use:   "plugin",
		Short: "Serve Nomad's client as a task driver",
		Long: `Serve Nomad's client as the task driver "allocnet", whose tasks are network
attachments. Nomad starts the plugin; if you start it manually, it prints an error.
Put allocnet, or a link to it, into the client's plugin_dir, and into the agent's
configuration:

  plugin "allocnet" {
    args = ["plugin"]
    config {
      conf_dir = "/opt/cni/config"
    }
  }

The block config can also have plugin_dirs, state_dir and policy_file. The defaults
are those of the flags with these names.`,
		Example: `  NOMAD_PLUGIN_MAGIC_COOKIE= allocnet plugin || echo 'Nomad starts it'`,
		Args:    cli.NoArguments,
		RunE: func(_ *cobra.Command, _ []string) error {
			if !driver.Wanted() {
				return cli.Usage(errors.New("this is a plugin: Nomad's client starts it, from its plugin_dir (see: allocnet plugin --help)"))
			}
			// The agent filters what it is given by its own level.
			log := hclog.New(&hclog.LoggerOptions{Name: driver.Name, Level: hclog.Debug, Output: os.Stderr, JSONFormat: true})
			c, err := s.Config(log)
			if err != nil {
				return err
			}
			driver.Serve(c, log)
			return nil
		},
	}
}
