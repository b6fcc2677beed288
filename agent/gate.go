// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"fmt"
	"net/http"
	"sync"

	"github.com/allocnet/allocnet/agent/api"
)

// gate counts the requests in flight. It admits up to a limit, and none once it is
// closed.
type gate struct {
	mu       sync.Mutex
	limit    int
	inFlight int
	closed   bool
	idle     chan struct{} // closed when the gate is closed and no request is in flight
}

func newGate(limit int) *gate {
	return &gate{limit: limit, idle: make(chan struct{})}
}

// enter admits a request, which has to leave again. The error is "try again later".
func (g *gate) enter() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return tryAgainLater("the agent is stopping")
	}
	if g.inFlight == g.limit {
		return tryAgainLater(fmt.Sprintf("%d requests are in flight, which is the limit", g.limit))
	}
	g.inFlight++
	return nil
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inFlight--
	g.signalIdle()
}

// close admits no more requests. It may be called more than once.
func (g *gate) close() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		g.closed = true
		g.signalIdle()
	}
	return g.idle
}

func (g *gate) signalIdle() {
	if g.closed && g.inFlight == 0 {
		close(g.idle)
	}
}

func (g *gate) isClosed() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.closed
}

func tryAgainLater(reason string) error {
	return &api.Error{Code: api.CodeTryAgainLater, Msg: "try again later", Details: reason, Status: http.StatusServiceUnavailable}
}
