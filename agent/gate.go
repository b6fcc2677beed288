// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"fmt"
	"net/http"
	"sync"

	"github.com/allocnet/allocnet/agent/api"
)

// gate counts the requests at work. It lets in as many as it has places, and
// none once it is closed.
type gate struct {
	mu      sync.Mutex
	places  int
	working int
	closed  bool
	idle    chan struct{} // closed when the gate is and nothing is at work
}

func newGate(places int) *gate {
	return &gate{places: places, idle: make(chan struct{})}
}

// enter lets a request in, which has to leave again. Its error says to try
// again later.
func (g *gate) enter() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return tryAgainLater("the agent is stopping")
	}
	if g.working == g.places {
		return tryAgainLater(fmt.Sprintf("%d requests are at work, which is the limit", g.places))
	}
	g.working++
	return nil
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.working--
	g.announce()
}

// close lets nothing in from now on. It may be called more than once.
func (g *gate) close() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		g.closed = true
		g.announce()
	}
	return g.idle
}

func (g *gate) announce() {
	if g.closed && g.working == 0 {
		close(g.idle)
	}
}

func (g *gate) isClosed() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.closed
}

func tryAgainLater(why string) error {
	return &api.Error{Code: api.CodeTryAgainLater, Msg: "try again later", Details: why, Status: http.StatusServiceUnavailable}
}
