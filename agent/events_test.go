// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/hashicorp/go-hclog"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/cluster/pools"
	"github.com/allocnet/allocnet/event"
	"github.com/allocnet/allocnet/hook"
)

// describeLines has the description of a line hold for an answer of one line.
func describeLines(t *testing.T) {
	t.Helper()
	openapi3filter.RegisterBodyDecoder(api.ContentEvents, func(body io.Reader, _ http.Header, _ *openapi3.SchemaRef, _ openapi3filter.EncodingFn) (any, error) {
		var value any
		return value, json.NewDecoder(body).Decode(&value)
	})
	t.Cleanup(func() { openapi3filter.UnregisterBodyDecoder(api.ContentEvents) })
}

// startWithEvents starts an agent whose state directory has three events.
func startWithEvents(t *testing.T) (*running, *event.Recorder) {
	t.Helper()
	dir := t.TempDir()
	recorder := event.NewRecorder(dir, "allocnet-cni", hclog.NewNullLogger())
	for _, o := range []hook.Observation{
		{Op: hook.OpAttach, Allocation: "web-1", Network: "web", Interface: "eth0", Attempts: 1},
		{Op: hook.OpAttach, Allocation: "web-1", Network: "storage", Interface: "net0", Attempts: 2, Err: errors.New("busy")},
		{Op: hook.OpCleanup, Reason: hook.ReasonGC, Allocation: "db-1", Networks: []string{"web"}, Objects: 3},
	} {
		recorder.Observe(o)
	}
	return start(t, Config{Events: event.Log{StateDir: dir}}, &scripted{}), recorder
}

// TestEvents: filters, requests that are refused, and events of pools.
func TestEvents(t *testing.T) {
	describeLines(t)
	r, recorder := startWithEvents(t)
	for _, test := range []struct {
		query  string
		status int
		lines  int
		want   string
	}{
		{"", 200, 3, `"caller":"allocnet-cni"`},
		{"?after=2", 200, 1, `"objects":3`},
		{"?allocation=web-1&network=storage&follow=false", 200, 1, `"error":"busy"`},
		{"?network=none", 200, 0, ""},
		{"?after=x", 422, 1, "after"},
		{"?after=-1", 422, 1, "after"},
		{"?follow=maybe", 422, 1, "follow"},
		{"?allocation=..", 422, 1, "allocation ID"},
	} {
		request, _ := http.NewRequest(http.MethodGet, "http://agent"+api.PathEvents+test.query, http.NoBody)
		response, err := r.http.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil || response.StatusCode != test.status || strings.Count(string(body), "\n") != test.lines || !strings.Contains(string(body), test.want) {
			t.Errorf("%s: %d, %v\n%s", test.query, response.StatusCode, err, body)
		}
		if test.lines > 0 {
			r.describes(request, response, body)
		}
	}
	for i, kind := range pools.Kinds {
		recorder.Pool("p", string(kind), "it cannot be used", false)
		if status, _, body := r.exchange("GET", fmt.Sprint(api.PathEvents, "?after=", 3+i), ""); status != http.StatusOK || !strings.Contains(body, `"pool":"p"`) {
			t.Errorf("a problem of a pool: %d %s", status, body)
		}
	}
	none := start(t, Config{}, &scripted{})
	if status, _, body := none.exchange("GET", api.PathEvents, ""); status != http.StatusNotImplemented {
		t.Errorf("an agent without events: %d %s", status, body)
	}
}

// TestFollowEvents: clients get new events as they come, until they or the agent end.
func TestFollowEvents(t *testing.T) {
	r, recorder := startWithEvents(t)
	follow := func(ctx context.Context, q api.EventQuery) chan api.Event {
		got := make(chan api.Event)
		go func() {
			defer close(got)
			for e, err := range r.client.Events(ctx, q) {
				if err != nil {
					t.Error(err)
					return
				}
				got <- e
			}
		}()
		return got
	}
	ctx, stop := context.WithCancel(t.Context())
	filtered := follow(ctx, api.EventQuery{Follow: true, Allocation: "web-2", Network: "web"})
	all := follow(t.Context(), api.EventQuery{Follow: true, After: 1})
	for _, index := range []uint64{2, 3} {
		if e := <-all; e.Index != index {
			t.Errorf("index %d, want %d", e.Index, index)
		}
	}
	recorder.Observe(hook.Observation{Op: hook.OpAttach, Allocation: "web-2", Network: "web"})
	for _, got := range []chan api.Event{filtered, all} {
		if e := <-got; e.Index != 4 || e.Allocation != "web-2" {
			t.Errorf("got %+v", e)
		}
	}
	stop()
	if e, more := <-filtered; more {
		t.Errorf("after the client's end: %+v", e)
	}
	r.stop()
	if e, more := <-all; more {
		t.Errorf("after the agent's end: %+v", e)
	}
}

// TestManyFollowers: the number of those who follow is bounded, and a slot becomes free.
func TestManyFollowers(t *testing.T) {
	r, _ := startWithEvents(t)
	for range maxFollowers {
		next, end := iter.Pull2(r.client.Events(t.Context(), api.EventQuery{Follow: true}))
		defer end()
		if e, err, _ := next(); err != nil || e.Index != 1 {
			t.Fatalf("%+v, %v", e, err)
		}
	}
	for _, err := range r.client.Events(t.Context(), api.EventQuery{Follow: true}) {
		var refused *api.Error
		if !errors.As(err, &refused) || refused.Code != api.CodeTryAgainLater || !strings.Contains(refused.Details, "16 clients") {
			t.Errorf("got %v", err)
		}
	}
	count := 0
	for _, err := range r.client.Events(t.Context(), api.EventQuery{}) {
		if err != nil {
			t.Error(err)
		}
		count++
	}
	if count != 3 {
		t.Errorf("%d events", count)
	}
}

// TestFollowersWithABody: a body hides from the agent that a client has disconnected, so
// that the client would keep its slot.
func TestFollowersWithABody(t *testing.T) {
	r, _ := startWithEvents(t)
	for range maxFollowers {
		client, err := net.Dial("unix", r.socket)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(client, "GET "+api.PathEvents+"?follow=true HTTP/1.1\r\nHost: agent\r\nContent-Length: 1\r\n\r\nx"); err != nil {
			t.Fatal(err)
		}
		if _, err := client.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		_ = client.Close()
	}
	for e, err := range r.client.Events(t.Context(), api.EventQuery{Follow: true}) {
		if err != nil || e.Index != 1 {
			t.Errorf("after those that are gone: %+v, %v", e, err)
		}
		break
	}
	if status, _, body := r.exchange("GET", api.PathEvents+"?follow=true", "x"); status != http.StatusBadRequest {
		t.Errorf("a body: %d %s", status, body)
	}
}

// brokenLog fails after an event.
type brokenLog struct{}

func (brokenLog) Events(context.Context, event.Filter, bool) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		_ = yield(event.Event{Index: 1}, nil) && yield(event.Event{}, errors.New("I/O error"))
	}
}

// TestBrokenEvents: a client does not take an answer for complete.
func TestBrokenEvents(t *testing.T) {
	r := start(t, Config{Events: brokenLog{}}, &scripted{})
	var last error
	for _, err := range r.client.Events(t.Context(), api.EventQuery{}) {
		last = err
	}
	if last == nil {
		t.Error("no error")
	}
}
