// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package daemon

import (
	"context"
	"fmt"
	"os"

	"github.com/allocnet/allocnet/agent"
	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/ipam/pool"
	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/hostmap"
)

// drawMap returns what draws the host; nil for an engine that attaches nothing.
func (d *Daemon) drawMap(engine agent.Engine) func(context.Context) (*hostmap.Map, error) {
	inspecting, ok := engine.(hostmap.Engine)
	if !ok {
		return nil
	}
	return func(ctx context.Context) (*hostmap.Map, error) {
		name, err := os.Hostname()
		if err != nil {
			return nil, err
		}
		return hostmap.Read(ctx, hostmap.Host{
			Name: name, Engine: inspecting, Shared: d.sharedUsage,
			Catalog: func() (*cniconf.Catalog, error) { return cniconf.Load(d.config.ConfDirs...) },
		})
	}
}

func (d *Daemon) sharedUsage(ctx context.Context, c *ipam.Config) (pool.Usage, error) {
	for _, s := range d.pools.Status(ctx) {
		if s.Pool == c.Pool {
			return s.Usage, nil
		}
	}
	return pool.Usage{}, fmt.Errorf("pool %s is not kept yet", c.Pool)
}
