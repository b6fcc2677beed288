// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"errors"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/cluster/ipam"
	routes "github.com/allocnet/allocnet/cluster/route"
	"github.com/allocnet/allocnet/cluster/span"
)

// TestCluster: the state of pools whose networks span hosts, with and without what may be
// missing, is as the description says.
func TestCluster(t *testing.T) {
	when := time.Date(2025, 11, 3, 10, 0, 0, 0, time.UTC)
	address, block := netip.MustParseAddr("10.0.0.2"), netip.MustParsePrefix("10.91.0.64/26")
	r := start(t, Config{Cluster: func() []span.Status {
		return []span.Status{
			{Pool: "left", Problems: []span.Problem{{Kind: span.KernelFailed, Text: "x"}}},
			{
				Pool: "web", Mode: ipam.ModeAuto, Endpoint: ipam.Endpoint{Address: netip.MustParseAddr("10.0.0.1"), LinkLocal: netip.MustParseAddr("fe80::1"), MAC: "02:00:00:00:00:01"}, MTU: 1450,
				Own: []ipam.Block{netip.MustParsePrefix("10.91.0.0/26")}, Listed: when, Applied: when,
				Nodes: []span.NodeStatus{
					{
						ID: "n1", Name: "c1", Address: address, Verified: when,
						Routes: []routes.Route{{Block: block, Via: address, Device: "eth0", Mode: ipam.ModeRouted, State: routes.Installed}},
						Probe:  span.Probe{Target: address, Time: when, Took: 1500 * time.Microsecond},
					},
					{
						ID: "n2", Address: address, Routes: []routes.Route{{Block: block, State: routes.Refused, Reason: "no node"}},
						Probe: span.Probe{Target: netip.MustParseAddr("fe80::2%vx-web"), Time: when, Err: errors.New("no answer")},
					},
				},
			},
		}
	}}, &scripted{})
	if status, _, body := r.exchange("GET", "/v1/cluster", ""); status != 200 || !strings.Contains(body, `"pool":"web"`) {
		t.Errorf("status %d: %s", status, body)
	}
	got, err := r.client.Cluster(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := &api.Cluster{Pools: []api.ClusterPool{
		{Pool: "left", Blocks: []string{}, Nodes: []api.ClusterNode{}, Problems: []api.PoolProblem{{Problem: "kernel", Text: "x"}}},
		{
			Pool: "web", Mode: "auto", Address: "10.0.0.1", LinkLocal: "fe80::1", MAC: "02:00:00:00:00:01", MTU: 1450, Blocks: []string{"10.91.0.0/26"}, Listed: when, Applied: when,
			Nodes: []api.ClusterNode{
				{
					ID: "n1", Name: "c1", Address: "10.0.0.2", Verified: when,
					Routes: []api.ClusterRoute{{Block: "10.91.0.64/26", Via: "10.0.0.2", Device: "eth0", Mode: "routed", State: "installed"}},
					Probe:  &api.ClusterProbe{Target: "10.0.0.2", Time: when, Seconds: 0.0015},
				},
				{
					ID: "n2", Address: "10.0.0.2", Routes: []api.ClusterRoute{{Block: "10.91.0.64/26", State: "refused", Reason: "no node"}},
					Probe: &api.ClusterProbe{Target: "fe80::2%vx-web", Time: when, Error: "no answer"},
				},
			},
			Problems: []api.PoolProblem{},
		},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if status, _, body := start(t, Config{}, &scripted{}).exchange("GET", "/v1/cluster", ""); status != 501 {
		t.Errorf("without pools: status %d: %s", status, body)
	}
	if status, _, body := r.exchange("GET", "/v1/cluster", "{}"); status != 400 {
		t.Errorf("with a body: status %d: %s", status, body)
	}
}

// TestClusterMetrics: all states have a series, so that an alert on one ends.
func TestClusterMetrics(t *testing.T) {
	m := NewMetrics(prometheus.NewRegistry())
	when := time.Date(2025, 11, 3, 10, 0, 0, 0, time.UTC)
	New(Config{Metrics: m, Cluster: func() []span.Status {
		return []span.Status{{Pool: "web", Problems: []span.Problem{{Kind: span.StoreFailed}}, Nodes: []span.NodeStatus{
			{Routes: []routes.Route{{State: routes.Installed}, {State: routes.Installed}}, Probe: span.Probe{Time: when}},
			{Routes: []routes.Route{{State: routes.Conflict}}, Probe: span.Probe{Time: when, Err: errors.New("no reply")}},
			{Routes: []routes.Route{{State: routes.Refused}}},
		}}}
	}}, &scripted{})
	m.Applied("web", 3, 2, 1)
	m.Routed("web", 3*time.Millisecond)
	m.Probed("web", 200*time.Microsecond, nil)
	m.Probed("web", 0, errors.New("no reply"))
	answer := httptest.NewRecorder()
	m.Handler().ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	for _, line := range []string{
		`allocnet_cluster_routes{pool="web",state="installed"} 2`, `allocnet_cluster_routes{pool="web",state="conflict"} 1`,
		`allocnet_cluster_routes{pool="web",state="refused"} 1`, `allocnet_cluster_routes{pool="web",state="failed"} 0`,
		`allocnet_cluster_nodes{pool="web",state="reachable"} 1`, `allocnet_cluster_nodes{pool="web",state="unreachable"} 1`, `allocnet_cluster_nodes{pool="web",state="unknown"} 1`,
		`allocnet_cluster_problems{pool="web",problem="store"} 1`, `allocnet_cluster_problems{pool="web",problem="unrouted"} 0`,
		`allocnet_cluster_changes_total{change="added",pool="web"} 3`, `allocnet_cluster_changes_total{change="removed",pool="web"} 1`,
		`allocnet_cluster_route_delay_seconds_bucket{pool="web",le="0.005"} 1`, `allocnet_cluster_route_delay_seconds_bucket{pool="web",le="0.0025"} 0`,
		`allocnet_cluster_probe_duration_seconds_bucket{pool="web",le="0.00025"} 1`, `allocnet_cluster_probe_failures_total{pool="web"} 1`,
	} {
		if !strings.Contains(answer.Body.String(), line+"\n") {
			t.Errorf("no %s", line)
		}
	}
	if answer.Code != 200 {
		t.Errorf("status %d\n%s", answer.Code, answer.Body)
	}
}
