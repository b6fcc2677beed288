// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package cluster

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/cmd/allocnet/cli"
)

// answering starts an agent that has an answer to GET /v1/cluster.
func answering(t *testing.T, answer api.Cluster) (socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "agent.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+api.PathCluster, func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(answer) })
	server := &httptest.Server{Listener: l, Config: &http.Server{Handler: mux}}
	server.Start()
	t.Cleanup(server.Close)
	return socket
}

// spanned is a pool with two hosts that are reached.
func spanned() api.ClusterPool {
	verified := time.Now().Add(-90 * time.Second)
	return api.ClusterPool{
		Pool: "web", Mode: "auto", Address: "10.0.0.1", MTU: 1450, Blocks: []string{"10.91.0.0/26"}, Problems: []api.PoolProblem{},
		Nodes: []api.ClusterNode{
			{
				ID: "n2", Name: "c2", Address: "10.0.0.2", Verified: verified, Probe: &api.ClusterProbe{Target: "10.0.0.2", Time: verified, Seconds: 0.000123},
				Routes: []api.ClusterRoute{
					{Block: "10.91.0.64/26", Via: "10.0.0.2", Device: "eth0", Mode: "routed", State: "installed"},
					{Block: "10.91.0.128/26", Via: "10.0.0.2", Device: "eth0", Mode: "routed", State: "installed"},
				},
			},
			{ID: "n3", Name: "c3", Address: "10.0.1.3", Verified: verified, Routes: []api.ClusterRoute{{Block: "10.91.1.0/26", Via: "10.0.1.3", Device: "vx-web", Mode: "vxlan", State: "installed"}}},
		},
	}
}

// TestClusterStatus: one row for blocks that are reached in the same way.
func TestClusterStatus(t *testing.T) {
	socket := answering(t, api.Cluster{Pools: []api.ClusterPool{spanned()}})
	code, out, errs := runs(t, "cluster", "status", "--socket", socket)
	want := `pool web, mode auto, this host 10.0.0.1, MTU 1450, blocks 10.91.0.0/26
NODE  ADDRESS   BLOCKS          VIA       DEVICE  MODE    STATE      PROBE    VERIFIED
c2    10.0.0.2  10.91.0.64/26   10.0.0.2  eth0    routed  installed  0.123ms  1m ago
                10.91.0.128/26
c3    10.0.1.3  10.91.1.0/26    10.0.1.3  vx-web  vxlan   installed  -        1m ago
`
	if code != cli.ExitDone || out != want {
		t.Errorf("exit code %d, %s\n%s\nwant\n%s", code, errs, out, want)
	}
	if code, out, _ := runs(t, "cluster", "status", "--socket", socket, "-q"); code != cli.ExitDone || out != "c2\nc3\n" {
		t.Errorf("-q: exit code %d, %q", code, out)
	}
	code, out, _ = runs(t, "cluster", "status", "--socket", socket, "--json")
	var got api.Cluster
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != cli.ExitDone || len(got.Pools) != 1 || got.Pools[0].Nodes[0].Routes[1].Block != "10.91.0.128/26" {
		t.Errorf("--json: exit code %d, %v\n%s", code, err, out)
	}
	if code, out, _ := runs(t, "cluster", "status", "--socket", answering(t, api.Cluster{})); code != cli.ExitDone || out != "no network of this host spans hosts\n" {
		t.Errorf("without pools: exit code %d, %q", code, out)
	}
}

// TestClusterStatusReplaced: blocks of a machine that this one replaces are shown, and no fault.
func TestClusterStatusReplaced(t *testing.T) {
	p := spanned()
	p.Nodes[1] = api.ClusterNode{ID: "n3", Name: "c3", Address: p.Address, Routes: []api.ClusterRoute{{Block: "10.91.1.0/26", State: "replaced", Reason: "the address is this host's"}}}
	code, out, _ := runs(t, "cluster", "status", "--socket", answering(t, api.Cluster{Pools: []api.ClusterPool{p}}))
	for _, want := range []string{"c3    10.0.0.1  10.91.1.0/26    -         -       -       replaced   -        -\n", "10.91.1.0/26 of node c3 is replaced: the address is this host's\n"} {
		if code != cli.ExitDone || !strings.Contains(out, want) {
			t.Errorf("exit code %d, no %q in\n%s", code, want, out)
		}
	}
}

// TestClusterStatusFails: what is not reached is said, with the reason, and by the exit code.
func TestClusterStatusFails(t *testing.T) {
	for name, test := range map[string]struct {
		change func(p *api.ClusterPool)
		want   string
	}{
		"refused": {func(p *api.ClusterPool) {
			p.Nodes[1].Routes[0] = api.ClusterRoute{Block: "10.91.1.0/26", State: "refused", Reason: "no node"}
		}, "10.91.1.0/26 of node c3 is refused: no node\n"},
		"silent":   {func(p *api.ClusterPool) { p.Nodes[0].Probe.Error = "no answer within 1s" }, "node c2 does not reply at 10.0.0.2: no answer within 1s\n"},
		"problems": {func(p *api.ClusterPool) { p.Problems = []api.PoolProblem{{Problem: "store", Text: "5\x1b03"}} }, "problem (store): 5\\x1b03\n"},
	} {
		p := spanned()
		test.change(&p)
		code, out, _ := runs(t, "cluster", "status", "--socket", answering(t, api.Cluster{Pools: []api.ClusterPool{p}}))
		if code != cli.ExitFailed || !strings.Contains(out, test.want) {
			t.Errorf("%s: exit code %d, no %q in\n%s", name, code, test.want, out)
		}
	}
	code, _, errs := runs(t, "cluster", "status", "--socket", t.TempDir()+"/none.sock")
	if code != cli.ExitFailed || !strings.Contains(errs, "none.sock: the agent does not answer: dial unix") || !strings.Contains(errs, "start it") {
		t.Errorf("without an agent: exit code %d, %s", code, errs)
	}
}
