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
	// Ready is the plugins' answer to CNI's STATUS: "yes", "no", or "unknown" if they
	// do not support it.
	Ready string `json:"ready"`
	// Policy describes the rules of the network; "unrestricted" without rules.
	Policy string `json:"policy"`
	// Problem is why the network cannot be attached now; empty if it can.
	Problem string `json:"problem,omitempty"`
}

// catalogJSON has the CNI configuration directories as --json prints them.
type catalogJSON struct {
	// Policy is the host's, which applies to networks without a rule of their own.
	Policy   string        `json:"policy"`
	Networks []networkJSON `json:"networks"`
	Broken   []string      `json:"broken,omitempty"`
	Shadowed []string      `json:"shadowed,omitempty"`
	// Exposed are networks with rules that Nomad does not apply.
	Exposed []doctor.Exposed `json:"exposed,omitempty"`
}

func newNetworks(s *settings) *cobra.Command {
	return &cobra.Command{
		Use:   "networks",
		Short: "List the networks of the CNI configuration directories",
		Long: `List the networks of the CNI configuration directories with their plugins and
capabilities, and the errors of invalid files. Networks of CNI 1.1 report whether they
are ready (STATUS). The exit code is 1 if a file is invalid, a plugin is missing, or a
network is not ready.`,
		Example: `  allocnet networks
  allocnet networks --conf-dir /etc/cni/net.d --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return listNetworks(cmd, s) },
	}
}

func listNetworks(cmd *cobra.Command, s *settings) error {
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
