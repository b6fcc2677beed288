// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package isolate

import (
	"context"
	"maps"

	"github.com/allocnet/allocnet/hook/internal/config"
	"github.com/allocnet/allocnet/isolation/filter"
	"github.com/allocnet/allocnet/state"
)

// Comparison compares attachments with what the host has to keep them apart. Nil: it has nothing.
type Comparison struct {
	host
	wanted
	members []filter.Member
	// inside are the allocations with attachments that are kept apart in their namespaces.
	inside map[string]bool
}

// Compare begins a comparison.
func Compare(c *config.Config, store *state.Store) (*Comparison, error) {
	h := host{c, store}
	if inForce, err := h.inForce(); err != nil || inForce == nil {
		return nil, err
	}
	w, _, _ := h.load()
	return &Comparison{host: h, wanted: w, inside: map[string]bool{}}, nil // the rules in force stay after a mistake in the file
}

// Add adds an attachment to those that are compared.
func (c *Comparison) Add(of state.Allocation, a state.Attachment) {
	if c == nil {
		return
	}
	m, ok := member(of, a, c.Levels)
	switch {
	case ok && m.Inside:
		c.inside[of.ID] = true
	case ok:
		c.members = append(c.members, m)
	}
}

// Lacks returns what the host lacks for them, in words, by container ID.
func (c *Comparison) Lacks(ctx context.Context) (map[string][]string, error) {
	if c == nil || len(c.members)+len(c.inside) == 0 {
		return nil, nil
	}
	lacks, err := c.config.Filter.Lacks(ctx, filter.State{Rules: c.Rules, Members: c.members})
	if err != nil || len(c.inside) == 0 {
		return lacks, err
	}
	all := maps.Clone(lacks)
	if all == nil {
		all = map[string][]string{}
	}
	return all, c.eachInside(ctx, c.wanted, nil, func(of state.Allocation, ns filter.Namespace, s filter.Inside) error {
		if !c.inside[of.ID] {
			return nil
		}
		lacks, err := c.config.Filter.LacksInside(ctx, ns, s)
		maps.Copy(all, lacks)
		return err
	})
}

// Make has the host get all of it.
func (c *Comparison) Make(ctx context.Context) error { return c.apply(ctx) }
