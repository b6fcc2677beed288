// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hostmap

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/ipam/pool"
	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/netns"
)

// Engine is what Read asks for allocations; *hook.Engine has it.
type Engine interface {
	List(ctx context.Context) iter.Seq2[*hook.Allocation, error]
	Current(a *hook.Allocation) *hook.Allocation
	Inspect(ctx context.Context, id string) ([]hook.Checked, error)
}

// Host is where Read looks.
type Host struct {
	// Name is in the title.
	Name   string
	Engine Engine
	// Catalog returns the networks.
	Catalog func() (*cniconf.Catalog, error)
	// Shared returns what this host has of a pool of allocnet-ipam.
	Shared func(ctx context.Context, c *ipam.Config) (pool.Usage, error)
	// Select returns an allocation with the attachments that are shown, or nil. Nil: all
	// are.
	Select func(*hook.Allocation) *hook.Allocation
	// ShowsUnused decides whether a network without attachments is in the map. Nil: each is.
	ShowsUnused func(network string) bool
	// Denied returns flows that isolation denied, which are then in the map. Nil: they are not.
	Denied func(ctx context.Context) ([]hook.DeniedFlow, error)
}

// Read returns a map of the host as it is now. The error is about records that cannot be read,
// which are not in the map; other things that cannot be read are problems of the map.
func Read(ctx context.Context, h Host) (*Map, error) {
	f := facts{Host: h.Name, Usage: map[string][]cniconf.Usage{}, Shared: map[string]pool.Usage{}, ShowsUnused: h.ShowsUnused}
	err := f.readAllocations(ctx, h)
	f.readNetworks(ctx, h)
	var unknown error
	if f.Links, unknown = netns.OwnInterfaces(); unknown != nil {
		f.problem("the links of the host are not known", unknown)
	}
	if h.Denied != nil {
		if f.Denied, unknown = h.Denied(ctx); unknown != nil {
			f.problem("the denied flows are not known", unknown)
		}
	}
	return build(f), err
}

func (f *facts) problem(what string, err error) {
	f.Problems = append(f.Problems, fmt.Sprintf("%s: %v", what, err))
}

// readAllocations reads the records, and compares the selected ones with their namespaces.
func (f *facts) readAllocations(ctx context.Context, h Host) error {
	var errs []error
	for a, err := range h.Engine.List(ctx) {
		if err != nil {
			errs = append(errs, err)
			continue
		}
		a = h.Engine.Current(a)
		if h.Select != nil {
			a = h.Select(a)
		}
		if a != nil {
			f.Allocations = append(f.Allocations, a)
		}
	}
	f.Inspections = inspectAll(ctx, h.Engine, f.Allocations)
	return errors.Join(errs...)
}

// inspectAll compares allocations, some at the same time.
func inspectAll(ctx context.Context, e Engine, all []*hook.Allocation) map[string]inspection {
	found := make([]inspection, len(all))
	var group errgroup.Group
	group.SetLimit(2 * runtime.GOMAXPROCS(0))
	for i, a := range all {
		group.Go(func() error {
			found[i].Checked, found[i].Err = e.Inspect(ctx, a.ID)
			return nil
		})
	}
	_ = group.Wait() // each has its own error
	inspections := map[string]inspection{}
	for i, a := range all {
		inspections[a.ID] = found[i]
	}
	return inspections
}

func (f *facts) readNetworks(ctx context.Context, h Host) {
	catalog, err := h.Catalog()
	if err != nil {
		f.problem("the networks are not known", err)
		return
	}
	for _, broken := range catalog.Broken {
		f.problem("not usable", broken)
	}
	f.Networks = catalog.Networks
	for _, n := range catalog.Networks {
		usage, err := n.Usage()
		if err != nil {
			f.problem(fmt.Sprintf("the leases of network %q are not known", n.Name), err)
		}
		f.Usage[n.Name] = usage
		for _, p := range n.Pools() {
			if p.Shared != nil {
				f.readShared(ctx, h, p.Shared)
			}
		}
	}
}

// readShared reads a pool that networks may share.
func (f *facts) readShared(ctx context.Context, h Host, c *ipam.Config) {
	if _, done := f.Shared[c.Pool]; done {
		return
	}
	usage, err := h.Shared(ctx, c)
	if err != nil {
		f.problem(fmt.Sprintf("the blocks of pool %q are not known", c.Pool), err)
	}
	f.Shared[c.Pool] = usage
}
