// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package isolate

import (
	"context"

	"github.com/allocnet/allocnet/hook/internal/config"
	"github.com/allocnet/allocnet/isolation/filter"
	"github.com/allocnet/allocnet/state"
)

// Comparison compares attachments with what the host has to keep them apart. Nil: it has nothing.
type Comparison struct {
	host
	wanted
	members []filter.Member
}

// Compare begins a comparison.
func Compare(c *config.Config, store *state.Store) (*Comparison, error) {
	h := host{c, store}
	if inForce, err := h.inForce(); err != nil || inForce == nil {
		return nil, err
	}
	w, _, _ := h.load()
	return &Comparison{host: h, wanted: w}, nil // the rules in force stay after a mistake in the file
}

// Add adds an attachment to those that are compared.
func (c *Comparison) Add(of state.Allocation, a state.Attachment) {
	if c == nil {
		return
	}
	if m, ok := member(of, a, c.Levels); ok {
		c.members = append(c.members, m)
	}
}

// Lacks returns what the host lacks for them, in words, by container ID.
func (c *Comparison) Lacks(ctx context.Context) (map[string][]string, error) {
	if c == nil || len(c.members) == 0 {
		return nil, nil
	}
	return c.config.Filter.Lacks(ctx, filter.State{Rules: c.Rules, Members: c.members})
}

// Make has the host get all of it.
func (c *Comparison) Make(ctx context.Context) error { return c.apply(ctx) }
