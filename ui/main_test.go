// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ui

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/agent/client"
	"github.com/allocnet/allocnet/ui/uitest"
)

// running is a server that serves on a port of its own, with an agent.
type running struct {
	testing.TB
	server *Server
	agent  *uitest.Agent
	// browser has the cookies of its sessions.
	browser *http.Client
	stop    context.CancelFunc
	ended   chan error
}

func start(t testing.TB) *running {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	agent := uitest.Start(t)
	r := &running{TB: t, agent: agent, ended: make(chan error, 1)}
	r.server = New(Config{Agent: client.New(agent.Socket), Host: "host-1", Listener: listener})
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	r.browser = &http.Client{Jar: jar}
	ctx, stop := context.WithCancel(t.Context())
	r.stop = stop
	go func() { r.ended <- r.server.Serve(ctx) }()
	t.Cleanup(stop)
	return r
}

// answer is one of the server.
type answer struct {
	status int
	header http.Header
	body   string
}

// get requests a path of the server with the cookies of the browser.
func (r *running) get(path string) answer {
	r.Helper()
	request, err := http.NewRequest(http.MethodGet, r.at(path), nil)
	if err != nil {
		r.Fatal(err)
	}
	return r.do(request)
}

func (r *running) at(path string) string {
	return "http://" + r.server.config.Listener.Addr().String() + path
}

func (r *running) do(request *http.Request) answer {
	r.Helper()
	response, err := r.browser.Do(request)
	if err != nil {
		r.Fatal(err)
	}
	defer response.Body.Close() // only read
	body, err := io.ReadAll(response.Body)
	if err != nil {
		r.Fatal(err)
	}
	return answer{response.StatusCode, response.Header, string(body)}
}

// enter opens a session.
func (r *running) enter() *running {
	r.Helper()
	opened, err := url.Parse(r.server.URL())
	if err != nil {
		r.Fatal(err)
	}
	if got := r.get(opened.RequestURI()); got.status != http.StatusOK || !strings.Contains(got.body, r.server.base) {
		r.Fatalf("status %d: %s", got.status, got.body)
	}
	return r
}

// page requests a page within a session.
func (r *running) page(path string) answer { return r.get(r.server.base + path) }
