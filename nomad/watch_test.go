// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package nomad

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
)

// nodeList answers blocking queries for the allocations of one node.
type nodeList struct {
	mu          sync.Mutex
	changed     chan struct{} // closed by the next change
	index       int
	allocations []api.Allocation
	broken      bool
	asked       []string // the indexes of the queries
}

func newNodeList() *nodeList { return &nodeList{changed: make(chan struct{}), index: 1} }

func (l *nodeList) set(broken bool, allocations ...api.Allocation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.index++
	l.broken, l.allocations = broken, allocations
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *nodeList) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	l.asked = append(l.asked, r.URL.Query().Get("index"))
	if r.URL.Query().Get("index") == strconv.Itoa(l.index) && !l.broken {
		changed := l.changed
		l.mu.Unlock()
		select {
		case <-changed:
		case <-r.Context().Done():
		}
		l.mu.Lock()
	}
	defer l.mu.Unlock()
	if l.broken {
		http.Error(w, "No cluster leader", http.StatusInternalServerError)
		return
	}
	w.Header().Set("X-Nomad-Index", strconv.Itoa(l.index))
	_ = json.NewEncoder(w).Encode(l.allocations)
}

func (l *nodeList) queries() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.asked)
}

// watching is a client whose Watch runs.
type watching struct {
	*testing.T
	client *Client
	list   *nodeList
	ended  chan struct{}
}

func watch(t *testing.T) watching {
	t.Helper()
	list := newNodeList()
	s := serve(t, map[string]any{
		"/v1/agent/self": self(), "/v1/node/" + nodeID: api.Node{ID: nodeID},
		"/v1/node/" + nodeID + "/allocations": list.ServeHTTP,
	})
	w := watching{T: t, client: newClient(t, s.URL), list: list, ended: make(chan struct{}, 8)}
	w.client.pause = time.Millisecond
	list.set(false, api.Allocation{ID: "a", ClientStatus: "running"}, api.Allocation{ID: "b", ClientStatus: "running"})
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		w.client.Watch(ctx, func() { w.ended <- struct{}{} })
		close(done)
	}()
	t.Cleanup(func() {
		stop()
		<-done
	})
	return w
}

// awaitLive waits until the client's live set is these allocations; without
// arguments, until it is unknown.
func (w watching) awaitLive(ids ...string) {
	w.Helper()
	for {
		w.client.mu.Lock()
		live := w.client.live
		w.client.mu.Unlock()
		if (live == nil) == (ids == nil) && slices.Equal(slices.Sorted(maps.Keys(live)), ids) {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// TestWatchKeepsLiveSet: as long as nothing changes, Live sends no request.
func TestWatchKeepsLiveSet(t *testing.T) {
	w := watch(t)
	w.awaitLive("a", "b")
	for w.list.queries() < 2 { // the second waits for a change
		time.Sleep(time.Millisecond)
	}
	for range 10 {
		live, err := w.client.Live(t.Context())
		if err != nil || len(live) != 2 {
			t.Errorf("live: %v, %v", live, err)
		}
	}
	if asked := w.list.queries(); asked != 2 {
		t.Errorf("%d queries, want 2", asked)
	}
	w.list.set(false, api.Allocation{ID: "a", ClientStatus: "complete"}, api.Allocation{ID: "b", ClientStatus: "running"})
	<-w.ended
	w.awaitLive("b")
	w.list.set(false, api.Allocation{ID: "b", ClientStatus: "running"}, api.Allocation{ID: "c", ClientStatus: "pending"})
	w.awaitLive("b", "c")
	if len(w.ended) != 0 {
		t.Error("a new allocation counts as ended")
	}
}

// TestWatchBeginsAfterRound: an allocation that ends after a round has read the live set, and before Watch
// does, is reported as ended, also if the round has read it twice.
func TestWatchBeginsAfterRound(t *testing.T) {
	for readings := range 3 {
		watchAfter(t, readings)
	}
}

func watchAfter(t *testing.T, readings int) {
	t.Helper()
	list := newNodeList()
	s := serve(t, map[string]any{
		"/v1/agent/self": self(), "/v1/node/" + nodeID: api.Node{ID: nodeID},
		"/v1/node/" + nodeID + "/allocations": list.ServeHTTP,
	})
	c := newClient(t, s.URL)
	list.set(false, api.Allocation{ID: "a", ClientStatus: "running"})
	if live, err := c.Live(t.Context()); err != nil || !live["a"] {
		t.Fatalf("%v, %v", live, err)
	}
	list.set(false, api.Allocation{ID: "a", ClientStatus: "complete"})
	for range readings {
		if live, err := c.Live(t.Context()); err != nil || live["a"] {
			t.Fatalf("%v, %v", live, err)
		}
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute) // what is not reported now never is
	c.pause = time.Millisecond
	var ended bool
	c.Watch(ctx, func() {
		ended = true
		stop()
	})
	stop()
	if !ended {
		t.Errorf("after %d readings it is not reported", readings)
	}
}

// TestWatchResumes: while Nomad does not answer, the live set is unknown.
// Allocations that ended meanwhile are reported afterwards.
func TestWatchResumes(t *testing.T) {
	w := watch(t)
	w.awaitLive("a", "b")
	w.list.set(true)
	w.awaitLive()
	failed := w.list.queries()
	for w.list.queries() < failed+2 { // the first may have been asked before the failure
		time.Sleep(time.Millisecond)
	}
	w.list.mu.Lock()
	if last := w.list.asked[len(w.list.asked)-1]; last != "" {
		t.Errorf("indexes %q: want none after a failure", w.list.asked)
	}
	w.list.mu.Unlock()
	if live, err := w.client.Live(t.Context()); err == nil {
		t.Errorf("without an answer: %v", live)
	}
	w.list.set(false, api.Allocation{ID: "b", ClientStatus: "running"})
	<-w.ended
	w.awaitLive("b")
}
