// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"

	"golang.org/x/sync/semaphore"

	"github.com/allocnet/allocnet/agent/api"
)

// gate counts the requests in flight. It admits up to a limit, and none once it is
// closed.
type gate struct {
	limit  int
	slots  *semaphore.Weighted
	closed atomic.Bool
}

func newGate(limit int) *gate {
	return &gate{limit: limit, slots: semaphore.NewWeighted(int64(limit))}
}

// enter admits a request, which has to leave again. The error is "try again later".
func (g *gate) enter() error {
	admitted := !g.closed.Load() && g.slots.TryAcquire(1)
	switch {
	case admitted:
		return nil
	case g.closed.Load():
		return tryAgainLater("the agent is stopping")
	}
	return tryAgainLater(fmt.Sprintf("%d requests are in flight, which is the limit", g.limit))
}

func (g *gate) leave() { g.slots.Release(1) }

// close admits no more requests. The channel is closed when none is in flight. It is called once.
func (g *gate) close() <-chan struct{} {
	g.closed.Store(true)
	idle := make(chan struct{})
	go func() {
		_ = g.slots.Acquire(context.Background(), int64(g.limit)) // which has no end
		close(idle)
	}()
	return idle
}

func (g *gate) isClosed() bool { return g.closed.Load() }

func tryAgainLater(reason string) error {
	return &api.Error{Code: api.CodeTryAgainLater, Msg: "try again later", Details: reason, Status: http.StatusServiceUnavailable}
}
