// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/allocnet/allocnet/agent/config"
	"github.com/allocnet/allocnet/cluster/connect"
	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/ipam/pool"
	"github.com/allocnet/allocnet/cluster/pools"
	"github.com/allocnet/allocnet/cmd/allocnet/cli"
	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/doctor"
)

// NewIPAM returns the command ipam.
func NewIPAM(s *cli.Settings) *cobra.Command {
	return cli.WithCommands(&cobra.Command{
		Use:   "ipam",
		Short: "Show and change the address pools of allocnet-ipam",
		Long: `Show and change the pools of allocnet-ipam that the networks of the CNI configuration
directories use. The store is the one that the plugin uses: that of the block ipam in the
directory configDir of the pool.`,
	}, newIPAMShow(s), newIPAMCheck(s), newIPAMRelease(s), newIPAMReserve(s), newIPAMUnreserve(s))
}

// sharedPool is a pool of allocnet-ipam; see package pool.
type sharedPool interface {
	doctor.SharedPool
	ReleaseNode(ctx context.Context, nodeID string) ([]ipam.Block, []netip.Addr, error)
	Reserve(ctx context.Context, address netip.Addr, job ipam.Job) error
	Unreserve(ctx context.Context, address netip.Addr) error
}

// poolAccess is a pool with its store, and with what Nomad knows of its nodes.
type poolAccess struct {
	config *ipam.Config
	pool   sharedPool
	open   func() (ipam.Store, ipam.Host, error)
	gone   func(ctx context.Context, nodeID string) (bool, error)
	fence  time.Duration
	// store is nomad or file.
	store string
}

func access(c *ipam.Config) (poolAccess, error) {
	host, err := config.LoadDefault(c.ConfigDir)
	if err != nil {
		return poolAccess{}, err
	}
	connection := connect.New(c.ConfigDir, c.StateDir)
	a := poolAccess{config: c, open: connection.Open, gone: connection.Gone, fence: pools.DefaultFence, store: "file"}
	if host.IPAM != nil {
		a.fence, a.store = cmp.Or(host.IPAM.Fence, pools.DefaultFence), cmp.Or(host.IPAM.Store, "nomad")
	}
	a.pool = pool.New(pool.Options{Config: c, Open: connection.Open, Holder: connection, Fence: connection.Fence})
	return a, nil
}

func (a poolAccess) source() doctor.PoolSource {
	s := doctor.PoolSource{Pool: a.pool, Open: a.open, Fence: a.fence, OneHost: a.store == "file"}
	if !s.OneHost {
		s.Gone = a.gone
	}
	return s
}

// configsOf returns the pools of the networks that args name: all without one, with the error of
// each that cannot be used. It is an error if it is named.
func configsOf(s *cli.Settings, args []string) (found []*ipam.Config, broken map[string]error, err error) {
	catalog, err := cniconf.Load(s.ConfDirs()...)
	if err != nil {
		return nil, nil, err
	}
	found, broken = pools.Find(catalog.Networks)
	if len(args) == 0 {
		if len(found)+len(broken) > 0 {
			return found, broken, nil
		}
		return nil, nil, cli.Usage(fmt.Errorf("no network in %s uses allocnet-ipam", strings.Join(s.ConfDirs(), ", ")))
	}
	if err := broken[args[0]]; err != nil {
		return nil, nil, err
	}
	i := slices.IndexFunc(found, func(c *ipam.Config) bool { return c.Pool == args[0] })
	if i < 0 {
		return nil, nil, cli.Usage(fmt.Errorf("no network in %s uses a pool %q of allocnet-ipam; there are %s", strings.Join(s.ConfDirs(), ", "), args[0], cmp.Or(strings.Join(poolsOf(found), ", "), "none")))
	}
	return found[i : i+1], nil, nil
}

// joined returns the errors of pools as one, which is nil if there is none.
func joined(broken map[string]error) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(broken)) {
		errs = append(errs, broken[name])
	}
	return errors.Join(errs...)
}

func poolsOf(found []*ipam.Config) []string {
	names := make([]string, len(found))
	for i, c := range found {
		names[i] = c.Pool
	}
	slices.Sort(names)
	return names
}

func poolNames(s *cli.Settings, _ *cobra.Command, _ []string, _ string) []string {
	found, _, _ := configsOf(s, nil) // what is broken completes nothing
	return poolsOf(found)
}

var atMostOnePool = cli.WantArguments(0, 1, "one pool, or none for all")

// PoolUsage returns what this host has of a pool, which needs no store.
func PoolUsage(ctx context.Context, c *ipam.Config) (pool.Usage, error) {
	a, err := access(c)
	if err != nil {
		return pool.Usage{}, err
	}
	return a.pool.Usage(ctx)
}

// PoolSource connects to a pool as the plugin does.
func PoolSource(c *ipam.Config) (doctor.PoolSource, error) {
	a, err := access(c)
	if err != nil {
		return doctor.PoolSource{}, err
	}
	return a.source(), nil
}
