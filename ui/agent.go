// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ui

import (
	"context"
	"iter"

	"github.com/allocnet/allocnet/agent/api"
)

// Agent is what the pages show; agent/client.Client is one.
type Agent interface {
	Ready(ctx context.Context) error
	Allocations(ctx context.Context) ([]*api.Allocation, error)
	Allocation(ctx context.Context, id string) (*api.Allocation, error)
	Details(ctx context.Context, id string) (*api.Details, error)
	Networks(ctx context.Context) (*api.Networks, error)
	Pools(ctx context.Context) (*api.Pools, error)
	Leaks(ctx context.Context) (*api.Leaks, error)
	Repair(ctx context.Context) (*api.Repair, error)
	Map(ctx context.Context) (*api.Map, error)
	Cluster(ctx context.Context) (*api.Cluster, error)
	Events(ctx context.Context, q api.EventQuery) iter.Seq2[api.Event, error]
}
