// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package hook

import (
	"context"
	"fmt"

	"github.com/allocnet/allocnet/state"
)

// noOp is the Hook of allocations that use the host's network. It attaches
// nothing. New has bridged traffic pass iptables, on which the port mappings of
// other allocations rely.
type noOp struct{}

var _ Hook = noOp{}

// Setup accepts an allocation that asks for no network.
func (noOp) Setup(_ context.Context, r Request) (*Allocation, error) {
	if err := state.ValidateID(r.ID); err != nil {
		return nil, err
	}
	if r.Primary != nil || len(r.Networks)+len(r.Defaults) > 0 {
		return nil, &RequestError{Field: "networks", Value: r.ID, Reason: "an allocation on the host's network has no attachments: leave its networks out, or use the hook \"cni\""}
	}
	return &Allocation{ID: r.ID, Netns: r.Netns}, nil
}

// Teardown does nothing.
func (noOp) Teardown(context.Context, string) error { return nil }

// Check finds nothing to check.
func (noOp) Check(context.Context, string) ([]Checked, error) { return nil, nil }

// Status knows no allocation: none is recorded.
func (noOp) Status(_ context.Context, id string) (*Allocation, error) {
	return nil, fmt.Errorf("allocation %s %w: the hook \"noop\" records none", id, state.ErrNotFound)
}

// GC finds nothing to collect.
func (noOp) GC(context.Context, GCRequest) (*Collected, error) {
	return &Collected{}, nil
}
