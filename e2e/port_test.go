// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/allocnet/allocnet/internal/sandbox"
)

// nat writes a network that maps ports and lets a job choose some.
func (h *host) nat(rules string) {
	h.t.Helper()
	sandbox.WriteFile(h.t, h.conf+"/15-nat.conflist", fmt.Sprintf(`{"cniVersion": "1.0.0", "name": "nat", %s "plugins": [
		{"type": "bridge", "bridge": "web0", "isGateway": true, "ipMasq": true, "hairpinMode": true,
		 "ipam": {"type": "host-local", "subnet": "10.88.0.0/16", "rangeStart": "10.88.200.1", "dataDir": "/run/nat"}},
		{"type": "portmap", "snat": true, "capabilities": {"portMappings": true}}]}`, rules))
	h.t.Cleanup(func() { _ = os.RemoveAll("/run/nat") })
}

func requireAnswer(t *testing.T, url, want string) {
	t.Helper()
	if text, err := get(url); err != nil || text != want {
		t.Errorf("%s answers %q, %v, want %q", url, text, err, want)
	}
}

// TestChosenHostPort: a job requests host ports in its selection.
func TestChosenHostPort(t *testing.T) {
	h := newHost(t)
	h.nat(`"allocnet": {"hostPorts": ["4000-4999"]},`)
	serve(t, "/proc/self/ns/net", ":4646", "the host's")
	r := h.runtime("1.0.0", `"primary": "storage"`)
	choose := func(port int) string {
		return fmt.Sprintf(`networks=[{"name":"nat","portMappings":[{"hostPort":%d,"containerPort":80}]}]`, port)
	}
	r.refuseAdd(h.container("p1", choose(5000)), 7, "nat", "hostPorts", "5000", "4000-4999", "15-nat.conflist")
	r.refuseAdd(h.container("p2", choose(4646)), 101, "4646/tcp", "listens on")
	requireAnswer(t, "http://127.0.0.1:4646", "the host's")
	requireAnswer(t, "http://10.88.0.1:4646", "the host's")

	first := h.container("p3", choose(4700))
	r.add(first)
	serve(t, first.NetNS, ":80", "p3 here")
	requireAnswer(t, "http://127.0.0.1:4700", "p3 here")
	r.refuseAdd(h.container("p4", choose(4700)), 101, "4700/tcp", "allocation p3")
	requireAnswer(t, "http://10.88.0.1:4700", "p3 here")

	assigned := h.container("p5")
	assigned.CapabilityArgs = map[string]any{"portMappings": []map[string]any{{"HostPort": 5001, "ContainerPort": 80, "Protocol": "tcp"}}}
	web := h.runtime("1.0.0", `"primary": "web"`)
	web.add(assigned)
	serve(t, assigned.NetNS, ":80", "p5 here")
	requireAnswer(t, "http://127.0.0.1:5001", "p5 here")
	web.del(assigned)
	r.del(first)
	second := h.container("p6", choose(4700))
	r.add(second) // free again
	r.del(second)
}

// TestChosenHostPortDeniedByDefault: without a rule a job chooses no port.
func TestChosenHostPortDeniedByDefault(t *testing.T) {
	h := newHost(t)
	h.nat("")
	r := h.runtime("1.0.0", `"primary": "storage"`)
	r.refuseAdd(h.container("p1", `networks=[{"name":"nat","portMappings":[{"hostPort":4700}]}]`), 7, "hostPorts", "none")
	r.refuseAdd(h.container("p2", `networks=[{"name":"nat","cni-args":{"portMappings":[{"hostPort":4700}]}}]`), 7, "cni-args", "portMappings")
}

// TestOnePortManyAttach: of the allocations that request a port at the same time, one
// gets it.
func TestOnePortManyAttach(t *testing.T) {
	h := newHost(t)
	const many = 6
	outcomes := make([]outcome, many)
	var all sync.WaitGroup
	for i := range many {
		all.Go(func() {
			outcomes[i] = h.allocnet("attach", fmt.Sprintf("m%d", i), "--primary", "web", "--publish", "4701:80/tcp")
		})
	}
	all.Wait()
	won := 0
	for _, o := range outcomes {
		switch {
		case o.code == 0:
			won++
		case o.code != 2 || !strings.Contains(o.stderr, "4701/tcp"):
			t.Errorf("exit code %d: %s", o.code, o.stderr)
		}
	}
	if won != 1 {
		t.Errorf("%d allocations have the port, want 1", won)
	}
	for i := range many {
		h.must("detach", fmt.Sprintf("m%d", i))
	}
}

// TestPublishedPortOfAListener: a port that an operator publishes must not be in use
// either.
func TestPublishedPortOfAListener(t *testing.T) {
	h := newHost(t)
	serve(t, "/proc/self/ns/net", "127.0.0.1:4702", "the host's")
	h.refuse(2, []string{"4702/tcp", "127.0.0.1"}, "attach", "p1", "--primary", "web", "--publish", "4702:80/tcp")
	h.refuse(2, []string{"4703/tcp on ::1", "do not leave the host"}, "attach", "p1", "--primary", "web", "--publish", "[::1]:4703:80/tcp")
	h.refuse(2, []string{"4703/tcp on fd00::1", "no IPv6 address"}, "attach", "p1", "--primary", "web", "--publish", "[fd00::1]:4703:80/tcp")
	h.must("attach", "p1", "--primary", "web", "--publish", "10.88.0.1:4702:80/tcp")
	requireAnswer(t, "http://127.0.0.1:4702", "the host's")
	h.must("detach", "p1")
}
