// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"

	cni "github.com/containernetworking/cni/pkg/version"
	"github.com/spf13/cobra"

	"github.com/allocnet/allocnet/cmd/allocnet/cli"
	"github.com/allocnet/allocnet/internal/signed"
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
	// Programs are those of --verify.
	Programs []signed.Program `json:"programs,omitempty"`
}

func ownVersion() versionJSON {
	return versionJSON{version.Version, version.Commit(), runtime.Version(), cni.All.SupportedVersions(), state.FormatVersion, nil}
}

// String is what version and --version print.
func (v versionJSON) String() string {
	text := fmt.Sprintf("allocnet %s (commit %s, %s)\nCNI: %s\nstate format: %d\n",
		v.Version, cmp.Or(v.Commit, "unknown"), v.Go, strings.Join(v.CNIVersions, ", "), v.StateFormat)
	for _, p := range v.Programs {
		text += p.State + ": " + cli.Printable(p.Path) + "\n"
	}
	return text
}

const versionLong = `Print the version and the commit of this program, the CNI versions that a network may
have, and the version of the format of the records. A program refuses records of a later
version.

With --verify, the programs of the package are compared with the list that its release has
signed: the key in /usr/share/keyrings/allocnet.gpg decides, and gpgv has to be there. The
exit code is 1 if one of them is changed or missing, if this program is not one of them, or
if the list is not signed. What has replaced this program can say anything: the page
releases.md has the same with programs of the distribution.`

func newVersion(s *cli.Settings) *cobra.Command {
	var verify bool
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version, the commit, the CNI versions and the state format",
		Long:    versionLong,
		Example: `  allocnet version --json`,
		Args:    cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v, err := ownVersion(), error(nil)
			if verify {
				if v.Programs, err = verifiedPrograms(cmd.Context()); v.Programs == nil {
					return err
				}
			}
			return errors.Join(err, s.Output(cmd.OutOrStdout(), v, func(w io.Writer, _ cli.Terminal) error {
				_, err := io.WriteString(w, v.String())
				return err
			}))
		},
	}
	cmd.Flags().BoolVar(&verify, "verify", false, "compare the programs with the list that their release has signed")
	return cmd
}

// verifiedPrograms also returns those that are not as the release has them, with an error.
func verifiedPrograms(ctx context.Context) ([]signed.Program, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	programs, err := signed.Verify(ctx, "/", self)
	for _, p := range programs {
		if !p.OK() {
			err = errors.Join(err, fmt.Errorf("%s is %s, want the program of the release: install the package again", p.Path, p.State))
		}
	}
	return programs, err
}
