// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package network

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"strings"

	"github.com/spf13/cobra"

	"github.com/allocnet/allocnet/cmd/allocnet/cli"
	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/doctor"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/texts"
	"github.com/allocnet/allocnet/policy"
	"github.com/allocnet/allocnet/state"
)

type networkJSON struct {
	Name         string   `json:"name"`
	Path         string   `json:"path"`
	CNIVersion   string   `json:"cniVersion"`
	Plugins      []string `json:"plugins"`
	Capabilities []string `json:"capabilities"`
	// Subnets are those of the pools of host-local and allocnet-ipam.
	Subnets []netip.Prefix `json:"subnets"`
	Ready   ready          `json:"ready"`
	// Executor is what executes the network.
	Executor state.Executor `json:"executor"`
	// WhyPlugins is why its plugins are executed; empty if they are not.
	WhyPlugins string `json:"whyPlugins,omitempty"`
	// Policy describes the rules of the network; "unrestricted" without rules.
	Policy string `json:"policy"`
	// Problem is why the network cannot be attached now; empty if it can.
	Problem string `json:"problem,omitempty"`
	// Warnings are mistakes in the configuration with which it can be attached.
	Warnings []string `json:"warnings,omitempty"`
}

// ready tells whether a network could serve an attachment now.
type ready string

const (
	isReady  ready = "yes"
	notReady ready = "no"
	// notReported is a network below CNI 1.1, which has no STATUS. Its file is valid, and
	// its plugins are installed.
	notReported ready = "notReported"
	// readyUnknown is a failed STATUS without root, which may be the cause.
	readyUnknown ready = "unknown"
	// forJobs is a conflist of allocnet-cni: jobs name it, and nothing is attached to it.
	forJobs ready = "forJobs"
)

func (r ready) cell() cli.Cell {
	switch r {
	case notReady:
		return cli.Coloured(cli.Red, "no")
	case readyUnknown:
		return cli.Coloured(cli.Yellow, "unknown")
	case forJobs:
		return cli.Text("for jobs")
	}
	return cli.Coloured(cli.Green, "yes")
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

type networkDetailJSON struct {
	networkJSON
	// HostPolicy is the host's, which applies where the network has no rule.
	HostPolicy string `json:"hostPolicy"`
	// Shadowed are the later files with the name.
	Shadowed []string `json:"shadowed,omitempty"`
	// Warning is that Nomad does not apply the rules of the network.
	Warning string `json:"warning,omitempty"`
	// Configuration is the conflist.
	Configuration json.RawMessage `json:"configuration"`
}

const networksLong = `List the networks of the CNI configuration directories with their plugins and
capabilities, and the errors of invalid files. With a NAME, show one network in full.
The command can be called network, too.
The exit code is 1 if a file is invalid, a plugin or a master is missing, or a network is
not ready.

READY is yes if the network can be attached: its file is valid, its plugins are there, and
report so where CNI 1.1 lets them (STATUS). Else the reason is below. "for jobs" is a ready
conflist of allocnet-cni: jobs name it, as mode = "cni/NAME", and nothing else attaches it.

SUBNETS are those of host-local and allocnet-ipam. On a terminal without room the table has
less than in a pipe; with a NAME all is shown.

--namespace and --job select the networks whose rules allow a job of this namespace or
name to attach. A template of --template gets what --json prints, with the same keys.`

type networksFlags struct {
	cli.Display
	identity policy.Identity
}

// New returns the command networks, with those below it.
func New(s *cli.Settings) *cobra.Command {
	var f networksFlags
	cmd := &cobra.Command{
		Use:     "networks [NAME]",
		Aliases: []string{"network"},
		Short:   "List, create and remove networks of the CNI configuration directories",
		Long:    networksLong,
		Example: `  allocnet networks
  allocnet networks web
  allocnet networks --namespace prod -q
  allocnet networks --conf-dir /etc/cni/net.d --json`,
		Args:              cli.WantArguments(0, 1, "one network or none"),
		ValidArgsFunction: s.CompleteFirst(allNames),
		RunE:              func(cmd *cobra.Command, args []string) error { return f.run(cmd, s, args) },
	}
	f.Register(cmd, "names")
	cmd.Flags().StringVar(&f.identity.Namespace, "namespace", "", "only networks that jobs of this Nomad namespace may attach (default: all)")
	cmd.Flags().StringVar(&f.identity.Job, "job", "", "only networks that this Nomad job may attach (default: all)")
	cmd.AddCommand(newNetworkCreate(s), newNetworkInspect(s), newNetworkRemove(s))
	return cmd
}

// newNetworkInspect is networks NAME, which has no name of a command for a network.
func newNetworkInspect(s *cli.Settings) *cobra.Command {
	var f networksFlags
	cmd := &cobra.Command{
		Use:   "inspect NAME",
		Short: "Show one network in full, as networks NAME does",
		Example: `  allocnet network inspect web
  allocnet network inspect web --json`,
		Args:              cli.WantArguments(1, 1, "the name of the network"),
		ValidArgsFunction: s.CompleteFirst(allNames),
		RunE:              func(cmd *cobra.Command, args []string) error { return f.run(cmd, s, args) },
	}
	f.Register(cmd, "names")
	return cmd
}

func (f *networksFlags) run(cmd *cobra.Command, s *cli.Settings, args []string) error {
	c, err := s.LoggedConfig(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	return f.Show(cmd, s.JSON, func(ctx context.Context) (cli.View, error) {
		catalog, err := cniconf.Load(s.ConfDirs()...)
		if err != nil {
			return cli.View{}, err
		}
		host, err := policy.Load(policy.DefaultFile)
		if err != nil {
			return cli.View{}, err
		}
		o := offer{catalog, host, func(n *cniconf.Network) error { return hook.Ready(ctx, c, n) }, c}
		if len(args) == 1 {
			return o.viewOne(s, args[0])
		}
		return o.viewAll(s, f.identity)
	})
}

func printCatalog(w io.Writer, t cli.Terminal, all catalogJSON) error {
	remarks := []string{"policy of this host: " + all.Policy}
	for _, n := range all.Networks {
		if n.Problem != "" {
			remarks = append(remarks, n.Problem)
		}
		for _, warning := range n.Warnings {
			remarks = append(remarks, fmt.Sprintf("warning: network %q: %s", n.Name, warning))
		}
	}
	for _, broken := range all.Broken {
		remarks = append(remarks, "not usable: "+broken)
	}
	for _, shadowed := range all.Shadowed {
		remarks = append(remarks, "not used: "+shadowed)
	}
	for _, e := range all.Exposed {
		remarks = append(remarks, "warning: "+e.Problem())
	}
	if err := catalogTable(t, all.Networks).Print(w, t.Colours); err != nil {
		return err
	}
	return cli.PrintLines(w, remarks...)
}

// catalogTable returns all that is known for a pipe. For a terminal it has what fits: else without capabilities and file, which
// the view of one network has, and with several lines for a network.
func catalogTable(t cli.Terminal, networks []networkJSON) cli.Table {
	full := cli.NewTable("NETWORK", "CNI", "READY", "EXECUTOR", "SUBNETS", "PLUGINS", "CAPABILITIES", "POLICY", "FILE")
	for _, n := range networks {
		full = append(full, []cli.Cell{
			cli.Text(n.Name), cli.Text(n.CNIVersion), n.Ready.cell(), cli.Text(string(n.Executor)), cli.Text(cli.OrDash(texts.Join(n.Subnets, ","))),
			cli.Text(strings.Join(n.Plugins, ",")), cli.Text(cli.OrDash(strings.Join(n.Capabilities, ","))), cli.Text(n.Policy), cli.Text(n.Path),
		})
	}
	if t.Columns == 0 || full.Width() <= t.Columns {
		return full
	}
	narrow := cli.NewTable("NETWORK", "READY", "SUBNETS", "PLUGINS", "POLICY")
	for _, n := range networks {
		subnets := cli.Coloured("", texts.Of(n.Subnets)...)
		if len(n.Subnets) == 0 {
			subnets = cli.Text("-")
		}
		narrow = append(narrow, []cli.Cell{
			cli.Text(n.Name), n.Ready.cell(), subnets, wrapped(strings.Join(n.Plugins, " "), pluginColumns), wrapped(n.Policy, policyColumns),
		})
	}
	return narrow
}

// Columns of a terminal that the narrow table has for plugins and rules.
const (
	pluginColumns = 14
	policyColumns = 22
)

func wrapped(text string, columns int) cli.Cell {
	return cli.Coloured("", cli.Wrap(text, columns)...)
}

func printNetwork(w io.Writer, t cli.Terminal, n networkDetailJSON) error {
	var table cli.Table
	for _, row := range []struct {
		name  string
		value cli.Cell
	}{
		{"Network", cli.Text(n.Name)}, {"File", cli.Text(n.Path)}, {"CNI version", cli.Text(n.CNIVersion)}, {"Ready", n.Ready.cell()}, {"Problem", cli.Text(n.Problem)},
		{"Executor", cli.Text(string(n.Executor))}, {"Why plugins", cli.Text(n.WhyPlugins)},
		{"Subnets", cli.Text(texts.Join(n.Subnets, ", "))}, {"Plugins", cli.Text(strings.Join(n.Plugins, ","))}, {"Capabilities", cli.Text(cli.OrDash(strings.Join(n.Capabilities, ",")))},
		{"Policy", cli.Text(n.Policy)}, {"Policy of this host", cli.Text(n.HostPolicy)}, {"Not used", cli.Coloured("", n.Shadowed...)}, {"Warning", cli.Text(n.Warning)}, {"Mistakes", cli.Coloured("", n.Warnings...)},
	} {
		if strings.Join(row.value.Lines, "") != "" {
			table = append(table, []cli.Cell{cli.Text(row.name), row.value})
		}
	}
	if err := table.Print(w, t.Colours); err != nil {
		return err
	}
	var configuration bytes.Buffer
	if err := json.Indent(&configuration, n.Configuration, "", "  "); err != nil {
		return err
	}
	text := "\n"
	for line := range strings.Lines(configuration.String()) {
		text += cli.Printable(line) + "\n"
	}
	_, err := io.WriteString(w, text)
	return err
}
