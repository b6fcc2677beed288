// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"cmp"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cmd/allocnet/cli"
	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/doctor"
)

func newIPAMCheck(s *cli.Settings) *cobra.Command {
	return &cobra.Command{
		Use:   "check [POOL]",
		Short: "Compare pools with the store, the blocks and the namespaces of this host",
		Long: `Compare one pool, or all, with the store, the blocks and the namespaces of this host,
and list each problem with its fix: addresses and blocks with two owners, blocks that are
not of the pool, blocks of nodes that Nomad does not know, another configuration than that
of the other hosts, addresses in namespaces without a lease, leases without a namespace,
pools of this host that assign the same addresses.
Nothing is changed.

The exit code is 1 if there is an error, or if something could not be looked at, as of a pool
that another process has locked; it is 0 if there are only other warnings.`,
		Example: `  allocnet ipam check
  allocnet ipam check vlan100
  allocnet ipam check --json`,
		Args:              atMostOnePool,
		ValidArgsFunction: s.CompleteFirst(poolNames),
		RunE:              func(cmd *cobra.Command, args []string) error { return ipamCheck(cmd, s, args) },
	}
}

func ipamCheck(cmd *cobra.Command, s *cli.Settings, args []string) error {
	if cli.RequireRoot() != nil {
		return cli.Usage(errors.New("this command reads the namespaces of the host, and the leases and blocks of its pools: run as root"))
	}
	configs, broken, err := configsOf(s, args)
	if err != nil {
		return err
	}
	r := &doctor.Report{Findings: []doctor.Finding{}, Pools: []doctor.Pool{}}
	for _, name := range slices.Sorted(maps.Keys(broken)) {
		r.Findings = append(r.Findings, brokenPool(name, broken[name], "correct the key ipam of the network"))
	}
	var opened []*ipam.Config
	var sources []doctor.PoolSource
	for _, c := range configs {
		a, err := access(c)
		if err != nil {
			r.Findings = append(r.Findings, brokenPool(c.Pool, err, "correct the block ipam in "+c.ConfigDir))
			continue
		}
		opened, sources = append(opened, c), append(sources, a.source())
	}
	s.Meanwhile(cmd.ErrOrStderr(), "examining the pools", func() { r.Findings = append(r.Findings, doctor.ExaminePools(cmd.Context(), opened, sources)...) })
	catalog, err := cniconf.Load(s.ConfDirs()...)
	if err != nil {
		return err
	}
	r.Findings = append(r.Findings, doctor.OverlappingPools(catalog.Networks, strings.Join(args, ""))...)
	return cmp.Or(s.Output(cmd.OutOrStdout(), r.Findings, func(w io.Writer, _ cli.Terminal) error { return cli.PrintFindings(w, r.Findings) }), cli.Unhealthy(r.Healthy()))
}

func brokenPool(name string, err error, fix string) doctor.Finding {
	return doctor.Finding{Severity: doctor.Error, Subject: "pool " + name, Problem: err.Error(), Fix: fix}
}
