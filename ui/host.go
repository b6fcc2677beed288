// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ui

import (
	"context"
	"errors"
	"net/http"
	"sync"

	"github.com/allocnet/allocnet/agent/api"
)

type part[T any] struct {
	Value T
	// Err is why there is none. Nil: there is one.
	Err error
}

// Supported is false if the agent has no such thing.
func (p part[T]) Supported() bool {
	var refused *api.Error
	return !errors.As(p.Err, &refused) || refused.Status != http.StatusNotImplemented
}

type host struct {
	Ready       part[struct{}]
	Allocations part[[]*api.Allocation]
	Networks    part[*api.Networks]
	Pools       part[*api.Pools]
	Leaks       part[*api.Leaks]
	Cluster     part[*api.Cluster]
	Repair      part[*api.Repair]
	// Map is asked for by lookAtAll only, because it takes the agent longer.
	Map part[*api.Map]
}

// look asks for everything at once. The error is that of an agent that does not answer.
func look(ctx context.Context, a Agent) (*host, error) {
	h := &host{}
	var group sync.WaitGroup
	group.Go(func() { h.Ready.Err = a.Ready(ctx) })
	group.Go(func() { h.Allocations = ask(ctx, a.Allocations) })
	group.Go(func() { h.Networks = ask(ctx, a.Networks) })
	group.Go(func() { h.Pools = ask(ctx, a.Pools) })
	group.Go(func() { h.Leaks = ask(ctx, a.Leaks) })
	group.Go(func() { h.Cluster = ask(ctx, a.Cluster) })
	group.Go(func() { h.Repair = ask(ctx, a.Repair) })
	group.Wait()
	return h, h.Allocations.Err
}

// lookAtAll is look, and asks how the host differs from the records.
func lookAtAll(ctx context.Context, a Agent) (*host, error) {
	drawn := make(chan part[*api.Map], 1)
	go func() { drawn <- ask(ctx, a.Map) }()
	h, err := look(ctx, a)
	if err == nil {
		h.Map = <-drawn
	}
	return h, err
}

// ask returns an answer; a value is never nil without an error.
func ask[T any](ctx context.Context, of func(context.Context) (T, error)) part[T] {
	value, err := of(ctx)
	return part[T]{value, err}
}
