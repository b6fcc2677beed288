// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package daemon

import (
	"net/netip"
	"path/filepath"

	"github.com/allocnet/allocnet/agent/config"
	"github.com/allocnet/allocnet/agent/pools"
	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/ipam"
	"github.com/allocnet/allocnet/ipam/filestore"
	"github.com/allocnet/allocnet/ipam/pool"
)

// newPools returns what keeps the pools of allocnet-ipam; nil with the hook "noop".
func (d *Daemon) newPools() *pools.Pools {
	if d.config.Hook == hook.NoOp {
		return nil
	}
	return pools.New(pools.Config{
		Find:   d.findPools,
		Open:   d.openPool,
		InUse:  func(p netip.Prefix) (bool, error) { return inUse(d.config.CNI.Chroot, p) },
		Logger: d.log.Named("ipam"),
	}, poolSettings(d.config.IPAM))
}

func poolSettings(c *config.IPAM) pools.Settings {
	if c == nil {
		return pools.Settings{}
	}
	return pools.Settings{KeepDead: c.Reclaim == "manual", Grace: c.Grace, Fence: c.Fence}
}

func (d *Daemon) findPools() ([]*ipam.Config, map[string]error, error) {
	catalog, err := cniconf.Load(d.config.ConfDirs...)
	if err != nil {
		return nil, nil, err
	}
	found, broken := pools.Find(catalog.Networks)
	return found, broken, nil
}

func (d *Daemon) openPool(c *ipam.Config, s pools.Settings) (pools.Pool, error) {
	return pool.New(pool.Options{
		Config: c, Grace: s.Grace, Fence: s.Fence, Logger: d.log.Named("ipam").With("pool", c.Pool),
		Open: func() (ipam.Store, ipam.Host, error) {
			store, host, err := openStore(c)
			if err != nil {
				return nil, ipam.Host{}, err
			}
			return pools.Observe(store, c.Pool, d.metrics), host, nil
		},
	}), nil
}

// inUse tells whether a namespace of the host has an address of a prefix.
func inUse(chroot string, p netip.Prefix) (bool, error) {
	if err := outside(chroot); err != nil {
		return false, err
	}
	used, err := netns.Addresses()
	if err != nil {
		return false, err
	}
	for address := range used {
		if p.Contains(address) {
			return true, nil
		}
	}
	return false, nil
}

// openStore returns the store of a pool, and who this host is.
func openStore(c *ipam.Config) (ipam.Store, ipam.Host, error) {
	return filestore.New(filepath.Join(c.StateDir, "ipam", "store")), ipam.Host{}, nil
}
