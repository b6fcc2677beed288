// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package daemon

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"os"

	"github.com/allocnet/allocnet/agent/config"
	"github.com/allocnet/allocnet/cluster/connect"
	"github.com/allocnet/allocnet/cluster/forwarding"
	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/ipam/peers"
	"github.com/allocnet/allocnet/cluster/route"
	"github.com/allocnet/allocnet/cluster/span"
	"github.com/allocnet/allocnet/cluster/span/packetfilter"
	"github.com/allocnet/allocnet/internal/echo"
	"github.com/allocnet/allocnet/state"
)

// newSpan returns what connects the pools whose networks span hosts; nil without pools.
func (d *Daemon) newSpan() *span.Span {
	if d.pools == nil {
		return nil
	}
	return span.New(span.Config{
		Kept: d.keptPools, Open: d.openPeers, Table: d.openTable, LinkLocal: span.LinkLocal, Ping: echo.Ping, Observer: routeObserver{d.metrics, d},
		InUse:  func(p netip.Prefix) (bool, error) { return inUse(d.config.CNI.Chroot, p) },
		Filter: d.filter, WatchFilter: packetfilter.Watch, Interfaces: interfaces, Logger: d.log.Named("cluster"),
	}, spanSettings(d.config.Cluster))
}

// routeObserver has the rosters see that the routes to other hosts have changed.
type routeObserver struct {
	span.Observer
	daemon *Daemon
}

// Applied implements span.Observer.
func (o routeObserver) Applied(pool string, added, replaced, removed int) {
	o.Observer.Applied(pool, added, replaced, removed)
	if added+replaced+removed > 0 && o.daemon.rosters != nil {
		o.daemon.rosters.kick()
	}
}

// filter makes the host's filters what they should be, and returns what certainly drops packets of
// other hosts, with what to do. The error has also what could not be read. Without pools it does nothing unless an earlier agent has left something.
func (d *Daemon) filter(ctx context.Context, f span.Filtering) (span.Obstacles, error) {
	keeper := packetfilter.New(packetfilter.Options{Dir: span.Dir(cmp.Or(d.config.StateDir, state.DefaultDir)), Logger: d.log.Named("cluster")})
	hasRecord := keeper.HasRecord()
	if len(f.Pools)+len(f.Spared) == 0 && !hasRecord {
		return func(*ipam.Config) []string { return nil }, nil
	}
	facts := forwarding.Collect(ctx, f.Node, true)
	var err error
	if f.Accept || hasRecord || packetfilter.HasRules(facts.Listings) {
		goal := packetfilter.Goal{Known: f.Known}
		if f.Accept {
			goal.Pools, goal.Spared = f.Pools, f.Spared
		}
		var changed bool
		changed, err = keeper.Keep(ctx, packetfilter.Found{Facts: facts, Listings: facts.Listings, IsPartial: len(facts.Unread) > 0}, goal)
		if changed {
			facts = forwarding.Collect(ctx, f.Node, true)
		}
	}
	return func(c *ipam.Config) []string { return obstacles(facts, c) }, errors.Join(append([]error{err}, facts.Unread...)...)
}

func obstacles(facts *forwarding.Facts, c *ipam.Config) []string {
	var texts []string
	for _, o := range facts.Obstacles([]*ipam.Config{c}) {
		if !o.IsWarning {
			texts = append(texts, o.Subject+": "+o.Problem+": "+o.Fix)
		}
	}
	return texts
}

// interfaces are those that the rules for pools name.
func interfaces(f span.Filtering) []string {
	facts := forwarding.Collect(context.Background(), f.Node, false)
	var names []string
	for _, c := range f.Pools {
		names = append(names, facts.Interfaces(c)...)
	}
	return names
}

func spanSettings(c config.Cluster) span.Settings {
	return span.Settings{Address: c.Address, NodeNetworks: c.NodeNetworks, Accept: c.Filtering == config.Accept}
}

func (d *Daemon) keptPools() ([]span.Kept, bool) {
	kept, complete := d.pools.Kept()
	var all []span.Kept
	for _, k := range kept {
		if p, ok := k.Pool.(span.Pool); ok {
			all = append(all, span.Kept{Config: k.Config, Pool: p})
		}
	}
	return all, complete
}

// openPeers uses the store that the plugin uses.
func (d *Daemon) openPeers(c *ipam.Config) (span.Peers, span.Nomad) {
	connection := connect.New(c.ConfigDir, c.StateDir)
	open := d.observed(connection, c.Pool)
	return peers.New(peers.Options{Config: c, Open: open, Logger: d.log.Named("cluster")}), connection
}

// openTable opens the routes of this host. Without need of them it makes no directory for a host
// that has none.
func (d *Daemon) openTable(needed bool) (span.Table, error) {
	stateDir := cmp.Or(d.config.StateDir, state.DefaultDir)
	dir := span.Dir(stateDir)
	if _, err := os.Stat(dir); err != nil && !needed {
		return nil, nil
	}
	if d.unlockRoutes == nil {
		unlock, err := span.Lock(dir)
		if err != nil {
			return nil, err
		}
		d.unlockRoutes = unlock
	}
	return route.New(route.Options{Dir: dir, Logger: d.log.Named("cluster")}), nil
}
