// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/doctor"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/policy"
)

// networkJSON is a network as --json prints it.
type networkJSON struct {
	Name         string   `json:"name"`
	Path         string   `json:"path"`
	CNIVersion   string   `json:"cniVersion"`
	Plugins      []string `json:"plugins"`
	Capabilities []string `json:"capabilities"`
	// Ready is what the plugins say of themselves (CNI's STATUS): "yes", "no",
	// or "unknown" where nobody can be asked.
	Ready string `json:"ready"`
	// Policy says who may attach; "anybody" without rules.
	Policy string `json:"policy"`
	// Problem says why the network cannot be attached now; empty when it can.
	Problem string `json:"problem,omitempty"`
}

// catalogJSON is the conf directory as --json prints it.
type catalogJSON struct {
	// Policy is the host's, which holds where a network says nothing.
	Policy   string        `json:"policy"`
	Networks []networkJSON `json:"networks"`
	Broken   []string      `json:"broken,omitempty"`
	Shadowed []string      `json:"shadowed,omitempty"`
	// Exposed are networks whose rules Nomad does not know.
	Exposed []doctor.Exposed `json:"exposed,omitempty"`
}

func newNetworks(s *settings) *cobra.Command {
	return &cobra.Command{
		Use:   "networks",
		Short: "List what the conf directory offers",
		Long: `List the networks of the conf directory with their plugins and capabilities, and
below them the files that cannot be used and why. Networks of CNI 1.1 are asked
whether they are ready (STATUS); others cannot be. The exit code is 1 when a
file cannot be used, a plugin is missing, or a network is not ready.`,
		Example: `  allocnet networks
  allocnet networks --conf-dir /etc/cni/net.d --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			catalog, err := cniconf.Load(s.confDirs()...)
			if err != nil {
				return err
			}
			engine, err := s.engine(cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			host, err := policy.Load(policy.DefaultFile)
			if err != nil {
				return err
			}
			view, healthy := viewCatalog(cmd.Context(), engine, catalog, filepath.SplitList(s.pluginDir))
			if view.Exposed, err = findExposed(s, catalog); err != nil {
				return err
			}
			view.Policy = fmt.Sprintf("%s (%s)", host.Describe(), host.File)
			if s.json {
				err = printJSON(cmd.OutOrStdout(), view)
			} else {
				err = printCatalog(cmd.OutOrStdout(), view)
			}
			if err == nil && !healthy {
				err = &exitError{code: exitFailed}
			}
			return err
		},
	}
}

func viewCatalog(ctx context.Context, engine *hook.Engine, c *cniconf.Catalog, pluginDirs []string) (catalogJSON, bool) {
	view := catalogJSON{Networks: []networkJSON{}}
	healthy := len(c.Broken) == 0
	for n, err := range c.Usable(pluginDirs).All() {
		network := networkJSON{Name: n.Name, Path: n.Path, CNIVersion: n.List.CNIVersion, Plugins: n.PluginTypes(), Capabilities: n.Capabilities(), Ready: "unknown"}
		rules, malformed := policy.Parse(n.Path, n.Options)
		network.Policy = rules.Describe()
		if malformed != nil {
			err = malformed
		}
		if err == nil {
			network.Ready, err = readiness(ctx, engine, n)
		}
		if err != nil {
			network.Problem = err.Error()
			healthy = false
		}
		view.Networks = append(view.Networks, network)
	}
	for _, broken := range c.Broken {
		view.Broken = append(view.Broken, broken.Error())
	}
	for _, n := range c.Shadowed {
		view.Shadowed = append(view.Shadowed, fmt.Sprintf("%s: an earlier file has the name %q", n.Path, n.Name))
	}
	return view, healthy
}

func readiness(ctx context.Context, engine *hook.Engine, n *cniconf.Network) (string, error) {
	err := engine.Ready(ctx, n)
	switch {
	case err == nil:
		return "yes", nil
	case errors.Is(err, hook.ErrNoStatus):
		return "unknown", nil
	}
	return "no", err
}

func printCatalog(w io.Writer, view catalogJSON) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "NETWORK\tCNI\tREADY\tPLUGINS\tCAPABILITIES\tPOLICY\tFILE") // Flush reports
	remarks := []string{"policy of this host: " + view.Policy}
	for _, n := range view.Networks {
		_, _ = fmt.Fprintln(table, strings.Join([]string{
			n.Name, n.CNIVersion, n.Ready, strings.Join(n.Plugins, ","), orDash(strings.Join(n.Capabilities, ",")), n.Policy, n.Path,
		}, "\t"))
		if n.Problem != "" {
			remarks = append(remarks, n.Problem)
		}
	}
	errs := []error{table.Flush()}
	for _, broken := range view.Broken {
		remarks = append(remarks, "not usable: "+broken)
	}
	for _, shadowed := range view.Shadowed {
		remarks = append(remarks, "not used: "+shadowed)
	}
	for _, e := range view.Exposed {
		remarks = append(remarks, "warning: "+e.Problem())
	}
	for _, remark := range remarks {
		_, err := fmt.Fprintln(w, remark)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
