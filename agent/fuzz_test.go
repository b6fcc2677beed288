// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/state"
)

// strict is an engine that records its requests, and refuses IDs as the real one does.
type strict struct {
	scripted
	asked []hook.Request
}

func (e *strict) Setup(ctx context.Context, r hook.Request) (*hook.Allocation, error) {
	if err := state.ValidateID(r.ID); err != nil {
		return nil, err
	}
	e.asked = append(e.asked, r)
	return e.scripted.Setup(ctx, r)
}

// FuzzRequest sends requests of a client with access. For any request, the answer is
// JSON with a matching status, and the engine gets valid names only.
func FuzzRequest(f *testing.F) {
	for _, seed := range [][3]string{
		{"PUT", "/v1/allocations/a", `{"primary": "web", "networks": [{"name": "storage", "ips": ["10.0.0.1/24"]}], "args": {"a": "b"}, "ports": [{"label": "x", "hostPort": 80}]}`},
		{"PUT", "/v1/allocations/..%2fa", `{"networks": "a@b"}`},
		{"DELETE", "/v1/allocations/a", ""},
		{"GET", "/v1/allocations/a%00b", ""},
		{"POST", "/v1/allocations/a/attachments", `{"networks": "storage"}`},
		{"DELETE", "/v1/allocations/..%2fa/attachments/..%2fx", ""},
		{"POST", "/v1/cni", `{"env": {"CNI_COMMAND": "ADD", "CNI_CONTAINERID": "a"}, "config": {"type": "allocnet-cni"}}`},
		{"POST", "/v1/cni", `{"env": {"LD_PRELOAD": "/x", "CNI_COMMAND": "ADD"}}`},
		{"POST", "/v1/gc", ""}, {"GET", "/v1/networks", ""}, {"GET", "/readyz", ""}, {"GET", "/v1//allocations/../x", ""},
	} {
		f.Add(seed[0], seed[1], []byte(seed[2]))
	}
	e := &strict{}
	handler := New(Config{ConfDirs: []string{f.TempDir()}, CNI: cniOnly{}, MaxBody: 4096}, e).handler()
	caller := withConn(context.Background(), &conn{peer: peer{uid: uint32(os.Geteuid())}})
	f.Fuzz(func(t *testing.T, method, path string, body []byte) {
		target, err := url.ParseRequestURI(path)
		if err != nil || target.Host != "" || path == "*" || !token.MatchString(method) {
			return // net/http answers it
		}
		e.asked = nil
		r := httptest.NewRequestWithContext(caller, method, "/", strings.NewReader(string(body)))
		r.URL, r.RequestURI = target, path
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		requireAnswer(t, w, path)
		for _, asked := range e.asked {
			for _, n := range asked.Networks {
				if !names.MatchString(n.Name + n.Interface) {
					t.Errorf("%s %s: asked for %+v", path, body, n)
				}
			}
		}
	})
}

var (
	token = regexp.MustCompile("^[A-Z]+$")
	names = regexp.MustCompile(`^[\w.-]+$`)
)

func requireAnswer(t *testing.T, w *httptest.ResponseRecorder, path string) {
	t.Helper()
	var failure api.Error
	switch w.Code {
	case http.StatusNoContent, http.StatusMovedPermanently, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
	case http.StatusOK:
		if !strings.HasPrefix(path, api.PathMetrics) && !json.Valid(w.Body.Bytes()) {
			t.Errorf("%s: no JSON: %s", path, w.Body)
		}
	default:
		if err := json.Unmarshal(w.Body.Bytes(), &failure); err != nil || failure.Code == 0 || w.Code < 400 || w.Code == http.StatusInternalServerError {
			t.Errorf("%s: status %d, %v: %s", path, w.Code, err, w.Body)
		}
	}
}

// cniOnly is a CNI that fails if it gets another variable than the specification's
// parameters. No other part of the test fails with status 500.
type cniOnly struct{}

func (cniOnly) Call(_ context.Context, call api.CNI) ([]byte, error) {
	for name := range call.Env {
		if !slices.Contains(parameters, name) {
			return nil, fmt.Errorf("the plugin gets the variable %q", name)
		}
	}
	return call.Config, nil
}

// TestPeers: only users with access get an answer, on any path, and only on a
// connection of the agent.
func TestPeers(t *testing.T) {
	handler := New(Config{ConfDirs: []string{t.TempDir()}, Pprof: true}, &scripted{}).handler()
	for name, ctx := range map[string]context.Context{
		"another user":  withConn(context.Background(), &conn{peer: peer{uid: uint32(os.Geteuid()) + 1, gid: 65534}}),
		"no connection": context.Background(),
	} {
		for _, path := range []string{"/v1/allocations", "/v1/cni", "/v1/gc", "/healthz", "/readyz", "/metrics", "/debug/pprof/", "/debug/pprof/profile", "/nothing"} {
			for _, method := range []string{"GET", "POST"} {
				w := httptest.NewRecorder()
				handler.ServeHTTP(w, httptest.NewRequestWithContext(ctx, method, path, nil))
				if w.Code != http.StatusForbidden && name == "another user" || w.Code < 400 {
					t.Errorf("%s: %s %s: %d: %s", name, method, path, w.Code, w.Body)
				}
			}
		}
	}
}
