// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

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
