// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package nomad

import (
	"context"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/allocnet/allocnet/internal/errdefs"
)

func TestReadClientConfig(t *testing.T) {
	for name, test := range map[string]struct {
		self       any
		want, fail string
	}{
		"configured": {self: configOf("/data", true, "/allocs"), want: "/allocs"},
		"default":    {self: configOf("/data", true, ""), want: "/data/alloc"},
		"a server":   {self: configOf("/data", false, ""), fail: "not a client"},
		"dev mode":   {self: configOf("", true, "")},
		"no version": {self: map[string]any{"config": map[string]any{"Client": map[string]any{"Enabled": true}}}, fail: `version ""`},
		"denied": {self: func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "Permission denied", http.StatusForbidden)
		}, fail: "Permission denied"},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, map[string]any{"/v1/agent/self": test.self})
			t.Setenv("NOMAD_ADDR", s.URL)
			t.Setenv("NOMAD_TOKEN", "secret")
			got, err := ReadClientConfig(context.Background())
			if got.AllocDir != test.want || (got.Version == Version{1, 8, 4}) != (test.fail == "") || (got.CNIConfigDir == "/opt/cni/config") != (test.fail == "") || test.fail == "" && err != nil || test.fail != "" && (err == nil || !strings.Contains(err.Error(), test.fail)) {
				t.Errorf("%+v, %v, want %q %s", got, err, test.want, test.fail)
			}
			if IsAbsent(err) != (name == "a server") || IsDenied(err) != (name == "denied") {
				t.Errorf("absent: %t, denied: %t", IsAbsent(err), IsDenied(err))
			}
			if s.tokens[0] != "secret" {
				t.Errorf("token %q", s.tokens[0])
			}
		})
	}
}

// TestAllocDir: the agent is asked with the token of the configuration until it has answered, and not again.
func TestAllocDir(t *testing.T) {
	s := serve(t, map[string]any{"/v1/agent/self": func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "Permission denied", http.StatusForbidden)
	}})
	c := newClient(t, s.URL)
	if dir, err := c.AllocDir(t.Context()); dir != "" || !IsDenied(err) || !strings.Contains(err.Error(), "alloc_dir") {
		t.Errorf("denied: %q, %v", dir, err)
	}
	s.answers["/v1/agent/self"] = configOf("/server", false, "")
	if dir, err := c.AllocDir(t.Context()); dir != "" || !errors.Is(err, errNoClient) {
		t.Errorf("a server: %q, %v", dir, err)
	}
	s.answers["/v1/agent/self"] = configOf("/data", true, "")
	for range 2 {
		if dir, err := c.AllocDir(t.Context()); dir != "/data/alloc" || err != nil {
			t.Errorf("%q, %v", dir, err)
		}
	}
	if len(s.tokens) != 3 || s.tokens[2] != "secret" {
		t.Errorf("requests with the tokens %q, want three", s.tokens)
	}
}

// TestNoAgent: where nothing listens there is none, which is not one that does not tell.
func TestNoAgent(t *testing.T) {
	t.Setenv("NOMAD_ADDR", "unix://"+filepath.Join(t.TempDir(), "missing"))
	if _, err := ReadClientConfig(t.Context()); !IsAbsent(err) || IsDenied(err) {
		t.Errorf("%v, want one that says that there is no agent", err)
	}
}

// TestSilentAgent: an agent that was stopped accepts connections.
func TestSilentAgent(t *testing.T) {
	limit := clientTimeout
	t.Cleanup(func() { clientTimeout = limit })
	clientTimeout = 10 * time.Millisecond
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	t.Setenv("NOMAD_ADDR", "http://"+listener.Addr().String())
	if _, err := ReadClientConfig(t.Context()); errdefs.Of(err) != errdefs.Timeout || IsAbsent(err) {
		t.Errorf("%v, want a timeout", err)
	}
}

func configOf(dataDir string, client bool, allocDir string) map[string]any {
	return map[string]any{"config": map[string]any{"DataDir": dataDir, "Version": map[string]any{"Version": "1.8.4"}, "Client": map[string]any{"Enabled": client, "AllocDir": allocDir, "CNIConfigDir": "/opt/cni/config"}}}
}
