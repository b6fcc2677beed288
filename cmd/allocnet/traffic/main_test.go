// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package traffic

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/spf13/cobra"

	"github.com/allocnet/allocnet/cluster/forwarding"
	"github.com/allocnet/allocnet/cmd/allocnet/cli"
	"github.com/allocnet/allocnet/cmd/allocnet/cli/clitest"
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
	return runsWith(t, fate{}, args...)
}

// fate is what the filters of a host do with each flow.
type fate struct {
	forwarding.Fate
	asked *[]forwarding.Flow
}

func (f fate) FateOf(flow forwarding.Flow) forwarding.Fate {
	if f.asked != nil {
		*f.asked = append(*f.asked, flow)
	}
	return f.Fate
}

// runsWith is runs on a host with filters.
func runsWith(t *testing.T, filters fate, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return clitest.Run(t, func(s *cli.Settings) []*cobra.Command {
		return []*cobra.Command{newPolicy(s, nil, func(context.Context) hostFilters { return filters })}
	}, args...)
}
