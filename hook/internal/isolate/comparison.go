// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package isolate

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/allocnet/allocnet/hook/internal/config"
	"github.com/allocnet/allocnet/isolation/filter"
	"github.com/allocnet/allocnet/state"
)

// Comparison compares attachments with what the host has to keep them apart. Nil: it has nothing.
type Comparison struct {
	host
	wanted
	members []filter.Member
	// inside are the attachments that are kept apart in the namespaces of their allocations, by these.
	inside map[string][]string
	// complete is what Make does.
	complete func() (failures, error)
}

// Compare begins a comparison.
func Compare(c *config.Config, store *state.Store) (*Comparison, error) {
	h := host{c, store}
	if inForce, err := h.inForce(); err != nil || inForce == nil {
		return nil, err
	}
	w, _, _ := h.load()
	return &Comparison{host: h, wanted: w, inside: map[string][]string{}}, nil // the rules in force stay after a mistake in the file
}

// Add adds an attachment to those that are compared.
func (c *Comparison) Add(of state.Allocation, a state.Attachment) {
	if c == nil {
		return
	}
	m, ok := member(of, a, c.Levels)
	switch {
	case ok && m.Inside:
		c.inside[of.ID] = append(c.inside[of.ID], m.ID)
	case ok:
		c.members = append(c.members, m)
	}
}

// Lacks returns what the host lacks for them, in words, by container ID.
func (c *Comparison) Lacks(ctx context.Context) (map[string][]string, error) {
	if c == nil || len(c.members)+len(c.inside) == 0 {
		return nil, nil
	}
	lacks, err := c.lacks(ctx, c.wanted, c.members)
	if err != nil || len(c.inside) == 0 {
		return lacks, err
	}
	all := maps.Clone(lacks)
	if all == nil {
		all = map[string][]string{}
	}
	failed := c.eachInside(ctx, c.wanted, nil, func(n *namespace, ns filter.Namespace, s filter.Inside) error {
		if !slices.ContainsFunc(n.allocations, func(of state.Allocation) bool { return c.inside[of.ID] != nil }) {
			return nil
		}
		lacks, err := c.config.Filter.LacksInside(ctx, ns, s)
		maps.Copy(all, lacks)
		return err
	})
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	for of := range failed {
		for _, id := range c.inside[of] {
			all[id] = append(all[id], "what keeps it apart in its namespace, which cannot be read")
		}
	}
	return all, nil
}

// Make has the host get all of it, at the first call. The error is that of the host, or of the namespace of an allocation.
func (c *Comparison) Make(ctx context.Context, id string) error {
	if c.complete == nil {
		c.complete = sync.OnceValues(func() (failures, error) { return c.applyInside(ctx) })
	}
	failed, err := c.complete()
	return errors.Join(err, failed.of(id))
}
