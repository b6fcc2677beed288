// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"cmp"
	"fmt"
	"io"
	"runtime"
	"strings"

	cni "github.com/containernetworking/cni/pkg/version"
	"github.com/spf13/cobra"

	"github.com/allocnet/allocnet/cmd/allocnet/cli"
	"github.com/allocnet/allocnet/internal/version"
	"github.com/allocnet/allocnet/state"
)

type versionJSON struct {
	Version string `json:"version"`
	// Commit is absent if it is not known.
	Commit string `json:"commit,omitempty"`
	Go     string `json:"go"`
	// CNIVersions are those that networks may have.
	CNIVersions []string `json:"cniVersions"`
	// StateFormat is the version of the records.
	StateFormat int `json:"stateFormat"`
}

func ownVersion() versionJSON {
	return versionJSON{version.Version, version.Commit(), runtime.Version(), cni.All.SupportedVersions(), state.FormatVersion}
}

// String is what version and --version print.
func (v versionJSON) String() string {
	return fmt.Sprintf("allocnet %s (commit %s, %s)\nCNI: %s\nstate format: %d\n",
		v.Version, cmp.Or(v.Commit, "unknown"), v.Go, strings.Join(v.CNIVersions, ", "), v.StateFormat)
}

func newVersion(s *cli.Settings) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version, the commit, the CNI versions and the state format",
		Long: `Print the version and the commit of this program, the CNI versions that a network may
have, and the version of the format of the records. A program refuses records of a later
version.`,
		Example: `  allocnet version --json`,
		Args:    cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return s.Output(cmd.OutOrStdout(), ownVersion(), func(w io.Writer, _ cli.Terminal) error {
				_, err := io.WriteString(w, ownVersion().String())
				return err
			})
		},
	}
}
