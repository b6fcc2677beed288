// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package daemon

import (
	"cmp"
	"context"
	"iter"

	"github.com/allocnet/allocnet/agent"
	"github.com/allocnet/allocnet/cluster/connect"
	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/ipam/plugin"
	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/event"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/unit"
)

func (d *Daemon) newEngine() (agent.Engine, error) {
	h, err := hook.New(cmp.Or(d.config.Hook, hook.CNI), d.engineConfig())
	if err != nil {
		return nil, err
	}
	if engine, ok := h.(agent.Engine); ok {
		return engine, nil
	}
	return hostNetwork{h}, nil
}

func (d *Daemon) engineConfig() hook.Config {
	c := d.config
	return hook.Config{
		ConfDirs: c.ConfDirs, PluginDirs: c.PluginDirs, Executor: c.Executor, StateDir: c.StateDir, CallTimeout: c.CallTimeout, OwnerGone: unit.Gone,
		Connect:   func(c *ipam.Config) plugin.Connection { return connect.New(c.ConfigDir, c.StateDir) },
		Observers: []hook.Observer{d.metrics, event.NewRecorder(c.StateDir, "agent", d.log)}, Logger: d.log,
	}
}

// hostNetwork is the engine of a hook that attaches nothing: it has no records and
// no networks.
type hostNetwork struct{ hook.Hook }

// List returns no allocation.
func (hostNetwork) List(context.Context) iter.Seq2[*hook.Allocation, error] {
	return func(func(*hook.Allocation, error) bool) {}
}

// Current returns the allocation.
func (hostNetwork) Current(a *hook.Allocation) *hook.Allocation { return a }

// Ready returns hook.ErrNoStatus: there are no plugins to ask.
func (hostNetwork) Ready(context.Context, *cniconf.Network) error { return hook.ErrNoStatus }
