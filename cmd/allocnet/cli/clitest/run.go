// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package clitest runs commands in tests.
package clitest

import (
	"bytes"
	"testing"

	"github.com/spf13/cobra"

	"github.com/allocnet/allocnet/cmd/allocnet/cli"
)

// Run returns the exit code and the output of a command line for commands of which there is no other one.
func Run(t *testing.T, commands func(s *cli.Settings) []*cobra.Command, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = cli.Execute(t.Context(), func(s *cli.Settings) *cobra.Command {
		root := &cobra.Command{Use: "allocnet"}
		root.AddCommand(commands(s)...)
		s.Prepare(root)
		return root
	}, args, &out, &errs)
	return code, out.String(), errs.String()
}
