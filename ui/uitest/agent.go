// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

// Package uitest has an agent whose answers a test makes up, on a socket as the real one.
package uitest

import (
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/allocnet/allocnet/agent/api"
)

// Agent answers requests that read.
type Agent struct {
	// Socket is its path.
	Socket string

	mu      sync.Mutex
	answers map[string]any
	events  []api.Event
	emitted chan struct{}
	// stuck keeps all answers back.
	stuck chan struct{}
}

// Start returns an agent of an empty host, which serves until the test ends.
func Start(t testing.TB) *Agent {
	t.Helper()
	dir, err := os.MkdirTemp("", "ui") // short enough for a socket
	if err != nil {
		t.Fatal(err)
	}
	a := &Agent{Socket: filepath.Join(dir, "agent.sock"), emitted: make(chan struct{}), answers: map[string]any{
		api.PathHealth: api.Health{Status: "alive"}, api.PathReady: api.Health{Status: "ready"},
		api.PathAllocations: []*api.Allocation{}, api.PathNetworks: api.Networks{}, api.PathPools: api.Pools{}, api.PathLeaks: api.Leaks{}, api.PathCluster: api.Cluster{}, api.PathMap: api.Map{}, api.PathRepair: api.Repair{},
	}}
	listener, err := net.Listen("unix", a.Socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: a}
	go func() { _ = server.Serve(listener) }() // ends with Close
	t.Cleanup(func() {
		a.Release()
		_ = server.Close()
		_ = os.RemoveAll(dir)
	})
	return a
}

// Set makes the answer to requests of a path. One that is an *api.Error is a failure.
func (a *Agent) Set(path string, answer any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answers[path] = answer
}

// Emit adds an event, with the next index.
func (a *Agent) Emit(e api.Event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	e.Version, e.Index = 1, uint64(len(a.events)+1)
	a.events = append(a.events, e)
	close(a.emitted)
	a.emitted = make(chan struct{})
}

// Hang keeps all answers back until Release, as a stopped agent does.
func (a *Agent) Hang() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stuck = make(chan struct{})
}

// Release ends Hang.
func (a *Agent) Release() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stuck != nil {
		close(a.stuck)
		a.stuck = nil
	}
}

// ServeHTTP answers.
func (a *Agent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	stuck := a.stuck
	a.mu.Unlock()
	if stuck != nil {
		select {
		case <-stuck:
		case <-r.Context().Done():
			return
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+api.PathEvents, a.stream)
	mux.HandleFunc("GET "+api.PathAllocation, a.allocation)
	mux.HandleFunc("GET "+api.PathDetails, a.details)
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		answer := a.answers[r.URL.Path]
		a.mu.Unlock()
		send(w, answer)
	})
	mux.ServeHTTP(w, r)
}

func send(w http.ResponseWriter, answer any) {
	if failure, ok := answer.(*api.Error); ok {
		w.WriteHeader(failure.Status)
	}
	_ = json.NewEncoder(w).Encode(answer) // the client is gone
}

// allocation answers with one of the list.
func (a *Agent) allocation(w http.ResponseWriter, r *http.Request) {
	if one := a.find(r.PathValue("id")); one != nil {
		send(w, one)
		return
	}
	send(w, notSetUp)
}

// details answers with what Set has made the answer for all allocations, or with those of one.
func (a *Agent) details(w http.ResponseWriter, r *http.Request) {
	one := a.find(r.PathValue("id"))
	a.mu.Lock()
	answer := a.answers[api.PathDetails]
	a.mu.Unlock()
	switch {
	case one == nil:
		answer = notSetUp
	case answer == nil:
		answer = details(one)
	}
	send(w, answer)
}

// find returns one of the list; nil if it has none with the ID.
func (a *Agent) find(id string) *api.Allocation {
	a.mu.Lock()
	defer a.mu.Unlock()
	all, _ := a.answers[api.PathAllocations].([]*api.Allocation)
	for _, one := range all {
		if one.ID == id {
			return one
		}
	}
	return nil
}

var notSetUp = &api.Error{CNIVersion: "1.1.0", Code: api.CodeUnknownContainer, Msg: "allocation is not set up here", Status: http.StatusNotFound}

// stream answers with all events, then with those that are emitted.
func (a *Agent) stream(w http.ResponseWriter, r *http.Request) {
	encoder, connection := json.NewEncoder(w), http.NewResponseController(w)
	_ = connection.Flush() // the next write has the error
	for sent := 0; ; {
		a.mu.Lock()
		fresh, emitted := a.events[sent:], a.emitted
		a.mu.Unlock()
		for _, e := range fresh {
			if encoder.Encode(e) != nil {
				return
			}
		}
		if sent += len(fresh); connection.Flush() != nil || r.URL.Query().Get("follow") == "" {
			return
		}
		select {
		case <-emitted:
		case <-r.Context().Done():
			return
		}
	}
}
