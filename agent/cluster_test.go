// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/agent/span"
	"github.com/allocnet/allocnet/ipam"
	routes "github.com/allocnet/allocnet/route"
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
		{Pool: "left", Blocks: []string{}, Nodes: []api.ClusterNode{}, Problems: []api.ClusterProblem{{Problem: "kernel", Text: "x"}}},
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
			Problems: []api.ClusterProblem{},
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
