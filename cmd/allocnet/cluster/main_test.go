// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"bytes"
	"fmt"
	"os"
	"testing"

	"github.com/spf13/cobra"

	"github.com/allocnet/allocnet/cmd/allocnet/cli"
	"github.com/allocnet/allocnet/internal/sandbox"
)

func TestMain(m *testing.M) {
	if err := sandbox.ClearEnvironment(); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// runs returns the exit code and the output of a command.
func runs(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = cli.Execute(t.Context(), func(s *cli.Settings) *cobra.Command {
		root := &cobra.Command{Use: "allocnet"}
		root.AddCommand(New(s), NewIPAM(s))
		s.Prepare(root)
		return root
	}, args, &out, &errs)
	return code, out.String(), errs.String()
}
