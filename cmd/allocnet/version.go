// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"fmt"
	"os"
	"runtime"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/allocnet/allocnet/internal/version"
)

// versionJSON is what version --json prints.
type versionJSON struct {
	Version string `json:"version"`
	Go      string `json:"go"`
}

func newVersion(s *settings) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: `  allocnet version --json`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if s.json {
				return printJSON(cmd.OutOrStdout(), versionJSON{version.Version, runtime.Version()})
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "allocnet %s (%s)\n", version.Version, runtime.Version())
			return err
		},
	}
}

// newMan is for packagers, like cobra's own completion command.
func newMan() *cobra.Command {
	return &cobra.Command{
		Use:     "man DIR",
		Short:   "Write the man pages into a directory",
		Example: `  allocnet man /usr/local/share/man/man1`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage(fmt.Errorf("got %d arguments: want one directory", len(args)))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			root := cmd.Root()
			root.DisableAutoGenTag = true // the same input gives the same pages
			return doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "allocnet " + version.Version}, args[0])
		},
	}
}
