// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"github.com/allocnet/allocnet/cmd/allocnet/cli"
	"github.com/allocnet/allocnet/cmd/allocnet/network"
	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/nomad"
	"github.com/allocnet/allocnet/selection"
	"github.com/allocnet/allocnet/state"
)

func newConf(s *cli.Settings) *cobra.Command {
	return cli.WithCommands(&cobra.Command{
		Use:   "conf",
		Short: "Make network configurations",
	}, newConfGenerate(s))
}

type generation struct {
	name, networks, allocDir, identity, out string
	check                                   bool
	// jobNetworks has the agent read what jobs select by meta and network blocks.
	jobNetworks bool
	// agentChosen is whether a flag sets jobNetworks.
	agentChosen bool
	nomad       nomad.Version
}

func newConfGenerate(s *cli.Settings) *cobra.Command {
	var g generation
	cmd := &cobra.Command{
		Use:   "generate PRIMARY",
		Short: "Write the conflist with which a Nomad job selects extra networks",
		Long: `Write a conflist of allocnet-cni with the main network PRIMARY, which is a network of
the CNI configuration directories, and print an example of its use in a job. A group
selects the conflist with mode = "cni/NAME", and can select the other networks of the
directories.

With --name PRIMARY, jobs that use the network need no change. The file then contains
the network as PRIMARY-primary, with an address pool of its own.

allocnet-cni writes network-status.json and network.env for the tasks of an
allocation. For that it needs the alloc_dir of the Nomad client. Without --alloc-dir
the Nomad agent of this host is asked for it, with NOMAD_ADDR, NOMAD_TOKEN and the
other environment variables of Nomad's CLI; the token needs agent:read.

Before Nomad 1.8.2 a job has no CNI arguments, and selects networks by meta and further
network blocks. Only the agent reads these, with job_networks = true in its block nomad.
For a Nomad agent of such a version, and with --job-networks, the file requires the
agent. With --job-networks=false all allocations get the networks of --networks, and no
job can select others.

A job of Nomad 1.8.2 to 1.9.3 can set the namespace that allocnet-cni is told, so the
file says that the identity of allocations is unknown: rules on namespaces then deny. If
the Nomad agent is not asked, because of --alloc-dir, set --identity for these versions.

The file is replaced atomically. With --check it is only compared; the exit code is 1
if it differs.`,
		Example: `  allocnet conf generate web
  allocnet conf generate web --name multi --networks storage --alloc-dir /opt/nomad/data/alloc
  allocnet conf generate web --name multi --networks storage --alloc-dir /opt/nomad/data/alloc --check`,
		Args:              cli.WantArguments(1, 1, "the name of the main network"),
		ValidArgsFunction: s.CompleteFirst(network.Names),
		RunE: func(cmd *cobra.Command, args []string) error {
			g.agentChosen = cmd.Flags().Changed("job-networks")
			return g.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), s, args[0])
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&g.name, "name", "multi", "name of the conflist, for mode = \"cni/NAME\"")
	flags.StringVar(&g.networks, "networks", "", "networks that every allocation gets, as NAME[@INTERFACE],... or a JSON list")
	flags.StringVar(&g.allocDir, "alloc-dir", "", "alloc_dir of the Nomad client, or \"none\" to write no files for tasks (default: ask the Nomad agent)")
	flags.StringVar(&g.identity, "identity", "", "identity of allocations: \"nomad\", or \"unknown\" for Nomad 1.8.2 to 1.9.3 (default: by the version of the Nomad agent that is asked, else nomad)")
	flags.BoolVar(&g.jobNetworks, "job-networks", false, "require the agent, which reads the networks that a job selects by meta and network blocks (default: for a Nomad agent before 1.8.2 that is asked)")
	flags.StringVar(&g.out, "out", "", "the file to write (default 00-NAME.conflist in the directory that Nomad reads)")
	flags.BoolVar(&g.check, "check", false, "compare the file, do not write it")
	return cmd
}

func (g *generation) run(ctx context.Context, stdout, stderr io.Writer, s *cli.Settings, primary string) error {
	if g.out == "" {
		g.out = filepath.Join(s.NomadConfDir(), "00-"+g.name+".conflist")
	}
	offered, err := cniconf.LoadExcept(g.out, s.ConfDirs()...)
	if err != nil {
		return err
	}
	for _, broken := range offered.Broken {
		if filepath.Dir(broken.Path) == filepath.Clean(s.NomadConfDir()) {
			return fmt.Errorf("%w: Nomad would offer no network at all: fix or remove the file", broken)
		}
	}
	attached, err := g.attached(s, offered, primary)
	if err != nil {
		return err
	}
	if err := g.findAllocDir(ctx); err != nil {
		return err
	}
	list, err := g.generate(s, offered, primary, attached)
	if err != nil {
		return err
	}
	if err := g.write(list); err != nil {
		return err
	}
	if err := warnOfExposed(stderr, s, offered); err != nil {
		return err
	}
	return g.explain(stdout, offered, primary)
}

// noAllocDir is the value of --alloc-dir without files for tasks.
const noAllocDir = "none"

// findAllocDir asks the Nomad agent for the alloc_dir that no flag gives. Without it a
// template that reads the files for tasks would wait forever, so a failure is an error.
func (g *generation) findAllocDir(ctx context.Context) error {
	switch {
	case !slices.Contains([]string{"", identityNomad, identityUnknown}, g.identity):
		return cli.Usage(fmt.Errorf("--identity %q: want %s or %s", g.identity, identityNomad, identityUnknown))
	case g.allocDir == noAllocDir:
		g.allocDir = ""
		return nil
	case filepath.IsAbs(g.allocDir):
		return nil
	case g.allocDir != "":
		return cli.Usage(fmt.Errorf("--alloc-dir %q: want an absolute path, or %q", g.allocDir, noAllocDir))
	}
	client, err := nomad.ReadClientConfig(ctx)
	if err == nil && client.AllocDir == "" {
		err = errors.New("the nomad agent has neither alloc_dir nor data_dir: it runs in development mode")
	}
	if err != nil {
		return fmt.Errorf("the alloc_dir of the Nomad client is not known: %w: start Nomad and set NOMAD_ADDR and NOMAD_TOKEN, or set --alloc-dir to the client's alloc_dir (default: alloc in its data_dir), or to %q", err, noAllocDir)
	}
	g.allocDir = client.AllocDir
	g.adapt(client.Version)
	return nil
}

const (
	identityNomad   = "nomad"
	identityUnknown = "unknown"
)

// adapt takes account of what the version of the Nomad agent lacks.
func (g *generation) adapt(version nomad.Version) {
	g.nomad = version
	if g.identity == "" && version.JobsForgeIdentity() {
		g.identity = identityUnknown
	}
	if !g.agentChosen {
		g.jobNetworks = !version.Has(nomad.JobArguments)
	}
}

// generate returns the conflist, and checks that it would work on this host.
func (g *generation) generate(s *cli.Settings, offered *cniconf.Catalog, primary string, attached []*cniconf.Network) ([]byte, error) {
	multi, err := g.multi(s, primary)
	if err != nil {
		return nil, err
	}
	list, err := multi.ConfList(offered)
	if err != nil {
		return nil, err
	}
	generated, err := cniconf.ParseNetwork(g.out, list)
	if err != nil {
		return nil, err
	}
	for _, n := range attached {
		if slices.Contains(n.PluginTypes(), generated.List.Plugins[0].Network.Type) {
			return nil, cli.Usage(fmt.Errorf("network %q is itself one of allocnet-cni: want one that it can attach", n.Name))
		}
	}
	return list, generated.CheckPlugins(s.PluginDirs())
}

// attached returns the networks that every allocation gets. The host has the plugins that they need.
func (g *generation) attached(s *cli.Settings, offered *cniconf.Catalog, primary string) ([]*cniconf.Network, error) {
	network, err := offered.Lookup(primary)
	if err != nil {
		return nil, err
	}
	elements, err := selection.Parse(g.networks)
	if err != nil {
		return nil, fmt.Errorf("--networks: %w", err)
	}
	attached := []*cniconf.Network{network}
	for _, e := range elements {
		n, err := offered.Lookup(e.Name)
		if err != nil {
			return nil, fmt.Errorf("--networks: %w", err)
		}
		attached = append(attached, n)
	}
	c, err := s.Config(hclog.NewNullLogger())
	if err != nil {
		return nil, err
	}
	usable := c.Usable(offered)
	for _, n := range attached {
		if err := usable.CheckPlugins(n); err != nil {
			return nil, err
		}
	}
	return attached, nil
}

func (g *generation) multi(s *cli.Settings, primary string) (cniconf.Multi, error) {
	m := cniconf.Multi{Name: g.name, Primary: primary, Networks: g.networks, PluginDir: s.PluginDir, AllocDir: g.allocDir}
	if g.identity == identityUnknown {
		m.Identity = identityUnknown
	}
	if g.jobNetworks {
		m.Agent = &cniconf.MultiAgent{Mode: "require", JobNetworks: true}
	}
	for _, dir := range s.ConfDirs() {
		dir, err := filepath.Abs(dir)
		if err != nil {
			return m, err
		}
		m.ConfDirs = append(m.ConfDirs, dir)
	}
	switch s.Executor {
	case "", hook.ExecutorAuto:
	case hook.ExecutorPlugins:
		m.Executor = s.Executor
	default:
		return m, cli.Usage(fmt.Errorf("--executor %q: want %s or %s", s.Executor, hook.ExecutorAuto, hook.ExecutorPlugins))
	}
	if s.StateDir != state.DefaultDir {
		m.StateDir = s.StateDir
	}
	return m, nil
}

func (g *generation) write(list []byte) error {
	if !g.check {
		return cniconf.Write(g.out, list)
	}
	present, err := os.ReadFile(g.out)
	if err != nil {
		return err
	}
	if !bytes.Equal(present, list) {
		return fmt.Errorf("%s is not what would be written now: run the same without --check", g.out)
	}
	return nil
}

// warnOfExposed names the networks whose rules Nomad does not know.
func warnOfExposed(stderr io.Writer, s *cli.Settings, offered *cniconf.Catalog) error {
	exposed, err := network.Exposed(s, offered)
	for _, e := range exposed {
		cli.PrintError(stderr, fmt.Sprintf("warning: %s: %s", e.Problem(), e.Fix()))
	}
	return err
}

func (g *generation) explain(w io.Writer, offered *cniconf.Catalog, primary string) error {
	var others []string
	for _, n := range offered.Networks {
		if n.Name != primary && n.Name != g.name {
			others = append(others, n.Name)
		}
	}
	names := "NAME"
	if len(others) > 0 {
		names = strings.Join(others[:min(2, len(others))], ",")
	}
	_, err := fmt.Fprintf(w, `%s: network "%s", main network "%s"
Let the Nomad client read it (kill -HUP, or a restart). A job then writes, in its group:

%s
`, g.out, g.name, primary, g.selecting(names, strings.Join(others, ", ")))
	return err
}

// selecting is what a group writes to select networks, in the form that works.
func (g *generation) selecting(names, others string) string {
	switch {
	case g.jobNetworks:
		return fmt.Sprintf(`  meta = {
    "allocnet.networks" = "%s"
  }
  network {
    mode = "cni/%s"
  }

Networks that it can name: %s
The agent has to run, with job_networks = true in its block nomad: without it no
allocation starts.`, names, g.name, others)
	case !g.nomad.Has(nomad.JobArguments):
		return fmt.Sprintf(`  network {
    mode = "cni/%s"
  }

It cannot select other networks: in Nomad %s a job has no CNI arguments, and without
--job-networks no agent reads its meta.`, g.name, g.nomad)
	}
	return fmt.Sprintf(`  network {
    mode = "cni/%s"
    cni {
      args = {
        networks = "%s"
      }
    }
  }

Networks that it can name: %s`, g.name, names, others)
}
