// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// TestNoOpHook: on a host whose networks are managed elsewhere, the agent accepts
// allocations without networks, and neither attaches nor removes anything, not even
// a leak on a network of allocnet.
func TestNoOpHook(t *testing.T) {
	h := newHost(t)
	h.configure("hook = \"noop\"")
	leak := []string{"POSTROUTING", "-s", "10.87.0.2", "-j", "MASQUERADE", "-m", "comment", "--comment", `name: "web" id: "dead-1"`}
	sandbox.Run(t, append([]string{"iptables", "-t", "nat", "-A"}, leak...)...)
	h.start()
	for range 2 {
		a := must[*api.Allocation](h)(h.client.Setup(ctx, "host-1", api.Setup{}))
		if a.ID != "host-1" || len(a.Attachments) != 0 {
			t.Errorf("set up: %+v", a)
		}
	}
	for _, test := range []struct {
		method, path, body string
		status             int
		words              string
	}{
		{"PUT", "/v1/allocations/host-1", `{"primary": "web"}`, http.StatusUnprocessableEntity, "has no attachments"},
		{"PUT", "/v1/allocations/host-1", `{"networks": "storage"}`, http.StatusUnprocessableEntity, "has no attachments"},
		{"POST", "/v1/allocations/host-1/attachments", `{"networks": "storage"}`, http.StatusNotImplemented, "does not change"},
		{"POST", "/v1/cni", `{"env": {"CNI_COMMAND": "ADD"}, "config": {"type": "allocnet-cni"}}`, http.StatusNotImplemented, "CNI"},
		{"GET", "/v1/allocations/host-1", "", http.StatusNotFound, "is not set up here"},
		{"GET", "/v1/allocations", "", http.StatusOK, "[]"},
		{"GET", "/v1/networks", "", http.StatusOK, `"networks":[]`},
		{"POST", "/v1/gc", "", http.StatusOK, `"tornDown":[]`},
		{"GET", "/readyz", "", http.StatusOK, "ready"},
	} {
		if status, body := h.request(test.method, test.path, test.body); status != test.status || !strings.Contains(body, test.words) {
			t.Errorf("%s %s %s: %d, want %d with %q: %s", test.method, test.path, test.body, status, test.status, test.words, body)
		}
	}
	if err := h.client.Teardown(ctx, "host-1"); err != nil {
		t.Error(err)
	}
	if out, err := exec.Command("iptables", append([]string{"-t", "nat", "-C"}, leak...)...).CombinedOutput(); err != nil {
		t.Errorf("the agent removed a rule: %v %s", err, out)
	}
	sandbox.Run(t, append([]string{"iptables", "-t", "nat", "-D"}, leak...)...)
}
