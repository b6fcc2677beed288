// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package connect

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/internal/hclfile"
)

const (
	nodeA = "0b2e7b1c-94c2-4c2a-8a0e-5a4e1d0c9f01"
	nodeB = "0b2e7b1c-94c2-4c2a-8a0e-5a4e1d0c9f02"
	alloc = "1b2e7b1c-94c2-4c2a-8a0e-5a4e1d0c9f03"
)

// agent is a Nomad agent that gives answers by path.
type agent struct {
	*httptest.Server
	mu      sync.Mutex
	answers map[string]string
	asked   []string
}

func newAgent(t *testing.T) *agent {
	t.Helper()
	a := &agent{answers: map[string]string{}}
	a.set("/v1/agent/self", `{"config": {"NodeName": "n1", "Region": "global"}, "stats": {"client": {"node_id": "`+nodeA+`"}}}`)
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.asked = append(a.asked, r.URL.Path+"?"+r.URL.RawQuery)
		answer, ok := a.answers[r.URL.Path]
		switch {
		case !ok:
			w.WriteHeader(http.StatusNotFound)
		case answer == "":
			w.WriteHeader(http.StatusForbidden)
		}
		_, _ = w.Write([]byte(answer))
	}))
	t.Cleanup(a.Close)
	return a
}

// set gives a path an answer; an empty one is refused.
func (a *agent) set(path, answer string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answers[path] = answer
}

func configDir(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.hcl"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func mustOpen(t *testing.T, configDir, stateDir string) (ipam.Store, ipam.Host) {
	t.Helper()
	store, host, err := New(configDir, stateDir).Open()
	if err != nil {
		t.Fatal(err)
	}
	return store, host
}

// TestInvalidConfiguration: a host does not use a store of its own because of a typing error.
func TestInvalidConfiguration(t *testing.T) {
	for text, want := range map[string]string{
		"ipam {":                         "a.hcl:1",
		"ipam {\n store = \"consul\"\n}": "a.hcl:2,10-18: Invalid value; \"consul\": want nomad, file",
		"ipam {\n stor = \"nomad\"\n}":   "a.hcl:2,2-6: Unsupported argument",
		"ipam {}\nnomad {\n host = 1\n}": "a.hcl:3,2-6: Unsupported argument",
	} {
		_, _, err := New(configDir(t, text), t.TempDir()).Open()
		var faults *hclfile.Error
		if !errors.As(err, &faults) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %s", text, err, want)
		}
	}
	_, _, err := New(configDir(t, "ipam {}\nnomad {\n address = \"127.0.0.1\"\n}"), t.TempDir()).Open()
	if err == nil || !strings.Contains(err.Error(), `nomad address "127.0.0.1"`) {
		t.Errorf("error %v, want one of the address", err)
	}
}

// TestNodeIsCached: Nomad is asked for the node once in a while, and not needed in between.
func TestNodeIsCached(t *testing.T) {
	a, stateDir := newAgent(t), t.TempDir()
	dir := configDir(t, "ipam {}\nnomad {\n address = \""+a.URL+"\"\n}")
	for range 3 {
		if _, host := mustOpen(t, dir, stateDir); host.NodeID != nodeA || host.NodeName != "n1" {
			t.Fatalf("host %+v, want node n1", host)
		}
	}
	if len(a.asked) != 1 {
		t.Errorf("asked %q, want once", a.asked)
	}
	a.set("/v1/agent/self", strings.Replace(a.answers["/v1/agent/self"], nodeA, nodeB, 1))
	age(t, stateDir, fresh)
	if _, host := mustOpen(t, dir, stateDir); host.NodeID != nodeB {
		t.Errorf("host %+v after %s, want the new node", host, fresh)
	}
	age(t, stateDir, -time.Hour)
	a.set("/v1/agent/self", "")
	if _, host := mustOpen(t, dir, stateDir); host.NodeID != nodeB {
		t.Errorf("host %+v while Nomad refuses, want the last node", host)
	}
	if err := os.WriteFile(filepath.Join(stateDir, "ipam", "nomad.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := New(dir, stateDir).Open(); !errors.Is(err, ipam.ErrRefused) || !strings.Contains(err.Error(), "configure node_id") {
		t.Errorf("no node: error %v", err)
	}
}

// age makes the cached node older.
func age(t *testing.T, stateDir string, by time.Duration) {
	t.Helper()
	path := filepath.Join(stateDir, "ipam", "nomad.json")
	data, err := os.ReadFile(path)
	var n node
	if err := errors.Join(err, json.Unmarshal(data, &n)); err != nil {
		t.Fatal(err)
	}
	n.Asked = time.Now().Add(-by)
	data, _ = json.Marshal(n)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestConfiguredNode: Nomad need not answer for a node that is configured. An earlier answer of
// another agent, or of another node, is not used.
func TestConfiguredNode(t *testing.T) {
	a, stateDir := newAgent(t), t.TempDir()
	mustOpen(t, configDir(t, "ipam {}\nnomad {\n address = \""+a.URL+"\"\n}"), stateDir)
	a.set("/v1/agent/self", "")
	if _, host := mustOpen(t, configDir(t, "ipam {}\nnomad {\n address = \""+a.URL+"\"\n node_id = \""+nodeB+"\"\n}"), stateDir); host.NodeID != nodeB || host.NodeName != "" {
		t.Errorf("host %+v, want the configured node", host)
	}
	_, _, err := New(configDir(t, "ipam {}\nnomad {\n address = \"http://127.0.0.1:1\"\n}"), stateDir).Open()
	if !errors.Is(err, ipam.ErrUnavailable) || !strings.Contains(err.Error(), "http://127.0.0.1:1") {
		t.Errorf("another agent: error %v, want that it is unavailable", err)
	}
}

// TestOtherRegion: a node is not known in the region of the pools, where it would seem gone.
func TestOtherRegion(t *testing.T) {
	a := newAgent(t)
	for region, want := range map[string]string{"global": nodeA, "eu": ""} {
		dir := configDir(t, fmt.Sprintf("ipam {\n region = %q\n}\nnomad {\n address = %q\n}", region, a.URL))
		if _, host := mustOpen(t, dir, t.TempDir()); host.NodeID != want || host.NodeName != "n1" {
			t.Errorf("region %s: host %+v, want the node ID %q", region, host, want)
		}
	}
}

func connected(t *testing.T, a *agent) *Connection {
	t.Helper()
	return New(configDir(t, "nomad {\n address = \""+a.URL+"\"\n}"), t.TempDir())
}

// TestEnded: only complete and failed allocations have ended.
func TestEnded(t *testing.T) {
	a := newAgent(t)
	c := connected(t, a)
	at := time.Unix(1700000000, 5)
	for status, want := range map[string]time.Time{"complete": at, "failed": at, "lost": {}, "unknown": {}, "running": {}, "pending": {}, "": {}} {
		a.set("/v1/allocations", fmt.Sprintf(`[{"ID": %q, "Namespace": "prod", "Name": "web.api[3]", "ClientStatus": %q, "ModifyTime": %d}]`, alloc, status, at.UnixNano()))
		got, err := c.Ended(t.Context(), "prod", alloc)
		if err != nil || !got.Equal(want) {
			t.Errorf("status %q: %v, %v, want %v", status, got, err, want)
		}
		if index, err := c.Index(t.Context(), "prod", alloc); err != nil || index != 3 {
			t.Errorf("index %d, %v, want 3", index, err)
		}
	}
	a.set("/v1/allocations", strings.Replace(a.answers["/v1/allocations"], `""`, `"complete"`, 1))
	for what, ask := range map[string][2]string{"another namespace": {"default", alloc}, "another allocation": {"prod", nodeA}, "no ID": {"prod", "../../x"}} {
		if got, err := c.Ended(t.Context(), ask[0], ask[1]); err != nil || !got.IsZero() {
			t.Errorf("%s: %v, %v, want that it is unknown", what, got, err)
		}
		if _, err := c.Index(t.Context(), ask[0], ask[1]); err == nil {
			t.Errorf("%s has an index", what)
		}
	}
	a.set("/v1/allocations", "")
	if got, err := c.Ended(t.Context(), "prod", alloc); !errors.Is(err, ipam.ErrRefused) || !got.IsZero() {
		t.Errorf("a token without rights: %v, %v", got, err)
	}
	for _, request := range a.asked {
		if strings.Contains(request, "..") {
			t.Errorf("asked for %s", request)
		}
	}
}

// TestGone: a node is gone if Nomad says so, and not if it does not answer.
func TestGone(t *testing.T) {
	a := newAgent(t)
	c := connected(t, a)
	requireGone := func(what string, want bool, wantErr error) {
		t.Helper()
		if got, err := c.Gone(t.Context(), nodeB); got != want || !errors.Is(err, wantErr) {
			t.Errorf("%s: %t, %v, want %t, %v", what, got, err, want, wantErr)
		}
	}
	a.set("/v1/allocations", "[]")
	requireGone("unknown, without allocations", true, nil)
	a.set("/v1/allocations", `[{"ID": "`+alloc+`"}]`)
	requireGone("unknown, with an allocation", false, nil)
	a.set("/v1/allocations", "")
	requireGone("unknown, and allocations cannot be read", false, ipam.ErrRefused)
	a.set("/v1/node/"+nodeB, `{"ID": "`+nodeB+`", "Status": "down"}`)
	requireGone("down", false, nil)
	a.set("/v1/node/"+nodeB, "")
	requireGone("nodes cannot be read", false, ipam.ErrRefused)
	a.Close()
	requireGone("no answer", false, ipam.ErrUnavailable)
	if gone, err := c.Gone(t.Context(), "../agent/self"); gone || err != nil {
		t.Errorf("no ID: %t, %v", gone, err)
	}
}

// TestNoNomad: without Nomad no allocation has ended, and no node is gone.
func TestNoNomad(t *testing.T) {
	c := New(configDir(t, ""), t.TempDir())
	if since, err := c.Ended(t.Context(), "default", alloc); !since.IsZero() || err != nil {
		t.Errorf("ended: %v, %v", since, err)
	}
	if gone, err := c.Gone(t.Context(), nodeB); gone || err != nil {
		t.Errorf("gone: %t, %v", gone, err)
	}
	if _, err := c.Index(t.Context(), "default", alloc); err == nil {
		t.Error("an allocation has an index")
	}
}

// TestFence: it is what the block ipam has, with each store.
func TestFence(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"": 0, "ipam {}": 0, "ipam {\n fence = \"3h\"\n}": 3 * time.Hour, "ipam {\n store = \"file\"\n fence = \"3h\"\n}": 3 * time.Hour,
	} {
		if got, err := New(configDir(t, text), t.TempDir()).Fence(); err != nil || got != want {
			t.Errorf("%q: %s, %v, want %s", text, got, err, want)
		}
	}
	if got, err := New(configDir(t, "ipam {\n fence = \"x\"\n}"), t.TempDir()).Fence(); err == nil {
		t.Errorf("an invalid one is %s", got)
	}
}
