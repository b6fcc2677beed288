// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package daemon

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/allocnet/allocnet/agent/config"
	"github.com/allocnet/allocnet/cluster/connect"
	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/ipam/pool"
	"github.com/allocnet/allocnet/cluster/pools"
	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/event"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/netns"
)

// newPools returns what keeps the pools of allocnet-ipam; nil with the hook "noop".
func (d *Daemon) newPools() *pools.Pools {
	if d.config.Hook == hook.NoOp {
		return nil
	}
	recorder := event.NewRecorder(d.config.StateDir, "agent", d.log)
	return pools.New(pools.Config{
		Find:  d.findPools,
		Open:  d.openPool,
		InUse: func(p netip.Prefix) (bool, error) { return inUse(d.config.CNI.Chroot, p) },
		Used:  func() ([]netip.Addr, error) { return usedAddresses(d.config.CNI.Chroot) },
		Changed: func() {
			if d.span != nil {
				d.span.Kick()
			}
		},
		Problem: func(pool string, p pools.Problem, ended bool) { recorder.Pool(pool, string(p.Kind), p.Text, ended) },
		Logger:  d.log.Named("ipam"),
	}, poolSettings(d.config.IPAM))
}

func poolSettings(c *config.IPAM) pools.Settings {
	s := pools.Settings{Store: storeName(c)}
	if c != nil {
		s.KeepDead, s.Grace, s.Fence = c.Reclaim == "manual", c.Grace, c.Fence
	}
	return s
}

func storeName(c *config.IPAM) string {
	if c == nil || c.Store == "file" {
		return "file"
	}
	name := "nomad, namespace " + cmp.Or(c.Namespace, "default")
	if c.Region != "" {
		name += ", region " + c.Region
	}
	return name
}

func (d *Daemon) findPools() ([]*ipam.Config, map[string]error, error) {
	catalog, err := cniconf.Load(d.config.ConfDirs...)
	if err != nil {
		return nil, nil, err
	}
	found, broken := pools.Find(catalog.Networks)
	return found, broken, nil
}

// openPool opens a pool with the store that the plugin uses.
func (d *Daemon) openPool(c *ipam.Config, s pools.Settings) (pools.Pool, error) {
	plugin, err := config.LoadDefault(c.ConfigDir)
	if err != nil {
		return nil, err
	}
	if other := storeName(plugin.IPAM); other != s.Store {
		return nil, fmt.Errorf("%w: the agent has the store %s, and configDir %s of the pool has %s: want the block ipam there, too", pools.ErrDisagree, s.Store, c.ConfigDir, other)
	}
	if other := fenceOf(poolSettings(plugin.IPAM)); other != fenceOf(s) {
		return nil, fmt.Errorf("%w: the agent has the fence %s, and configDir %s of the pool has %s: want the same there", pools.ErrDisagree, fenceOf(s), c.ConfigDir, other)
	}
	connection := connect.New(c.ConfigDir, c.StateDir)
	return pool.New(pool.Options{
		Config: c, Grace: s.Grace, Fence: connection.Fence, Holder: connection, Logger: d.log.Named("ipam").With("pool", c.Pool),
		Open: d.observed(connection, c.Pool),
	}), nil
}

// observed opens the store of a pool, with metrics.
func (d *Daemon) observed(connection *connect.Connection, pool string) func() (ipam.Store, ipam.Host, error) {
	return func() (ipam.Store, ipam.Host, error) {
		store, host, err := connection.Open()
		if err != nil {
			return nil, ipam.Host{}, err
		}
		return pools.Observe(store, pool, d.metrics), host, nil
	}
}

func fenceOf(s pools.Settings) time.Duration { return cmp.Or(s.Fence, pools.DefaultFence) }

// inUse tells whether a namespace of the host has an address of a prefix.
func inUse(chroot string, p netip.Prefix) (bool, error) {
	used, err := usedAddresses(chroot)
	return slices.ContainsFunc(used, p.Contains), err
}

func usedAddresses(chroot string) ([]netip.Addr, error) {
	if err := outside(chroot); err != nil {
		return nil, err
	}
	used, err := netns.Addresses()
	return slices.Collect(maps.Keys(used)), err
}
