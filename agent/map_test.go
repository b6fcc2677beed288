// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/hostmap"
)

// TestMap: the picture, and each difference with where it is; an unreadable record does not
// hide the rest.
func TestMap(t *testing.T) {
	m := &hostmap.Map{
		Host:     "host-1",
		Networks: []hostmap.Network{{Name: "web", Devices: []hostmap.Device{{Plugin: "bridge", Name: "web0", Drift: "missing"}, {Name: "eth0"}}}},
		Allocations: []hostmap.Allocation{{
			ID: "web-1", Drift: []string{"the namespace is gone"},
			Attachments: []hostmap.Attachment{{Network: "web", Interface: "eth0", Drift: []string{"down", "address gone"}}, {Network: "web", Interface: "net1"}},
		}},
	}
	unreadable := errors.New("a record cannot be read")
	r := start(t, Config{Map: func(context.Context) (*hostmap.Map, error) { return m, unreadable }}, &scripted{})
	if status, _, body := r.exchange("GET", "/v1/map", ""); status != 200 {
		t.Errorf("status %d: %s", status, body)
	}
	got, err := r.client.Map(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(got.SVG, "<svg") || !strings.Contains(got.SVG, "web-1") {
		t.Errorf("the picture is %s", got.SVG)
	}
	want := []api.Drift{
		{Network: "web", Text: "missing"}, {Allocation: "web-1", Text: "the namespace is gone"},
		{Network: "web", Allocation: "web-1", Interface: "eth0", Text: "down"}, {Network: "web", Allocation: "web-1", Interface: "eth0", Text: "address gone"},
	}
	if diff := cmp.Diff(want, got.Drift); diff != "" {
		t.Error(diff)
	}
	if status, _, body := start(t, Config{}, &scripted{}).exchange("GET", "/v1/map", ""); status != 501 {
		t.Errorf("without networks of its own: status %d: %s", status, body)
	}
	if status, _, body := r.exchange("GET", "/v1/map", "{}"); status != 400 {
		t.Errorf("with a body: status %d: %s", status, body)
	}
	broken := start(t, Config{Map: func(context.Context) (*hostmap.Map, error) { return nil, unreadable }}, &scripted{})
	if status, _, body := broken.exchange("GET", "/v1/map", ""); status != 500 {
		t.Errorf("without a map: status %d: %s", status, body)
	}
}

// TestMapLimit: a map costs more than a list of records, and counts against the limit.
func TestMapLimit(t *testing.T) {
	began, release := make(chan struct{}), make(chan struct{})
	r := start(t, Config{MaxRequests: 1, Map: func(context.Context) (*hostmap.Map, error) {
		close(began)
		<-release
		return &hostmap.Map{}, nil
	}}, &scripted{})
	first := make(chan error, 1)
	go func() {
		_, err := r.client.Map(context.Background())
		first <- err
	}()
	<-began
	if status, _, body := r.exchange("PUT", "/v1/allocations/a", "{}"); status != 503 {
		t.Errorf("a request beside a map: status %d: %s", status, body)
	}
	close(release)
	if err := <-first; err != nil {
		t.Error(err)
	}
}
