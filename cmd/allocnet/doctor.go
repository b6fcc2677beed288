// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/spf13/cobra"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/cmd/allocnet/cli"
	"github.com/allocnet/allocnet/cmd/allocnet/cluster"
	"github.com/allocnet/allocnet/doctor"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/nomad"
)

func newDoctor(s *cli.Settings) *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Examine this host, and list each problem with its fix",
		Long: `Examine this host for problems with attaching allocations and tearing them down:
network configurations, plugins, kernel settings, network managers, rules in both iptables
backends, what drops flows that isolation allows or has packets pass beside it, leaks, ports
published for dead allocations, address pools (those of allocnet-ipam also in their store),
records, and running attachments that lack something, or were repaired
again and again in the last 10 minutes. Plugins of networks that allocnet executes itself are
not needed. Nothing is changed.

If the Nomad agent of this host answers (NOMAD_ADDR, NOMAD_TOKEN), or with --nomad-conf-dir,
networks are compared with what Nomad offers. Without root, only configurations, plugins,
kernel settings and network managers are examined.

The exit code is 1 if there is an error, or if something could not be looked at, such as a
pool that another process has locked; it is 0 if there are only other warnings.`,
		Example: `  allocnet doctor
  allocnet doctor --json`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var report *doctor.Report
			var err error
			s.Meanwhile(cmd.ErrOrStderr(), "examining the host", func() { report, err = examine(cmd, s) })
			if err != nil {
				return err
			}
			return cmp.Or(s.Output(cmd.OutOrStdout(), report, func(w io.Writer, _ cli.Terminal) error { return printReport(w, report) }), cli.Unhealthy(report.Healthy()))
		},
	}
}

// askNomad adds what the Nomad client on this host says of itself, or why it does not. Nothing if none runs.
func askNomad(ctx context.Context, d *doctor.Doctor) {
	client, err := nomad.ReadClientConfig(ctx)
	if err != nil {
		if !nomad.IsAbsent(err) {
			d.NomadSilent = err
		}
		return
	}
	d.NomadVersion = client.Version
	if d.NomadConfDir == "" {
		d.NomadConfDir = client.CNIConfigDir
	}
}

func examine(cmd *cobra.Command, s *cli.Settings) (*doctor.Report, error) {
	c, err := s.LoggedConfig(cmd.ErrOrStderr())
	if err != nil {
		return nil, err
	}
	d := doctor.Doctor{
		ConfDirs: c.ConfDirs, NomadConfDir: s.NomadDir, PluginDirs: c.PluginDirs,
		StateDir: c.StateDir, PoolSource: cluster.PoolSource,
		WhyPlugins:  c.WhyPlugins,
		CheckKeys:   c.CheckKeys,
		Warnings:    c.Warnings,
		AgentSilent: agentSilent,
	}
	askNomad(cmd.Context(), &d)
	if d.Unprivileged = cli.RequireRoot() != nil; !d.Unprivileged {
		engine, err := s.Engine(cmd.ErrOrStderr())
		if err != nil {
			return nil, err
		}
		d.Collector = engine.Collector()
		d.Store = d.Collector.Store
		d.Drifts = func(ctx context.Context) ([]hook.Drift, error) {
			return engine.RepairAttachments(ctx, hook.RepairRequest{Mode: hook.RepairReport})
		}
	}
	return d.Examine(cmd.Context()), nil
}

// agentSilent returns why no agent listens on this host.
func agentSilent(ctx context.Context) error {
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "unix", api.DefaultSocket)
	if err != nil {
		return err
	}
	return conn.Close()
}

func printReport(w io.Writer, r *doctor.Report) error {
	if len(r.Pools) > 0 {
		table := cli.NewTable("NETWORK", "FAMILY", "ADDRESSES USED", "OF")
		for _, p := range r.Pools {
			table.Add(p.Network, p.Family, fmt.Sprint(p.Used), p.Total.String())
		}
		if err := table.Print(w, false); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(w); err != nil {
			return err
		}
	}
	return cli.PrintFindings(w, r.Findings)
}
