// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/cluster/ipam"
	"github.com/allocnet/allocnet/cluster/ipam/pool"
	"github.com/allocnet/allocnet/cluster/pools"
)

// TestPoolMetrics: what the host has of each pool, and each kind of problem, so that an alert
// on a kind ends.
func TestPoolMetrics(t *testing.T) {
	m := NewMetrics(prometheus.NewRegistry())
	New(Config{Metrics: m, Pools: func(context.Context) []pools.Status {
		return []pools.Status{
			{Pool: "broken", Problems: []pools.Problem{{Kind: pools.Failed, Text: "x"}}},
			{
				Pool: "vlan100", Fence: 20 * time.Hour, Problems: []pools.Problem{{Kind: pools.Refused, Text: "403"}},
				Usage: pool.Usage{Conflicts: 7, Verified: time.Now().Add(-time.Hour), Families: []pool.FamilyUsage{
					{Family: ipam.IPv4, Blocks: 2, Count: pool.Count{Used: 3, Cooling: 4, Free: 5}}, {Family: ipam.IPv6},
				}},
			},
		}
	}}, &scripted{})
	m.StoreCall("create", "conflict", 3*time.Millisecond)
	m.Claim("vlan100", "taken")
	answer := httptest.NewRecorder()
	m.Handler().ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	for _, line := range []string{
		`allocnet_ipam_addresses{family="ipv4",pool="vlan100",state="cooling"} 4`,
		`allocnet_ipam_addresses{family="ipv4",pool="vlan100",state="free"} 5`,
		`allocnet_ipam_addresses{family="ipv4",pool="vlan100",state="used"} 3`,
		`allocnet_ipam_addresses{family="ipv6",pool="vlan100",state="free"} 0`,
		`allocnet_ipam_blocks{family="ipv4",pool="vlan100"} 2`,
		`allocnet_ipam_fence_seconds{pool="vlan100"} 72000`,
		`allocnet_ipam_verified_seconds{pool="vlan100"} 360`,
		`allocnet_ipam_conflicts_total{pool="vlan100"} 7`,
		`allocnet_ipam_problems{pool="vlan100",problem="refused"} 1`,
		`allocnet_ipam_problems{pool="vlan100",problem="lost"} 0`,
		`allocnet_ipam_problems{pool="broken",problem="failed"} 1`,
		`allocnet_ipam_claims_total{outcome="taken",pool="vlan100"} 1`,
		`allocnet_ipam_store_duration_seconds_bucket{code="conflict",operation="create",le="0.005"} 1`,
	} {
		if !strings.Contains(answer.Body.String(), line) {
			t.Errorf("no %s", line)
		}
	}
	if text := answer.Body.String(); strings.Contains(text, `allocnet_ipam_fence_seconds{pool="broken"}`) || answer.Code != 200 {
		t.Errorf("status %d\n%s", answer.Code, text)
	}
}

// TestPools: what the host has of each pool is as the description says, also of one that
// cannot be used.
func TestPools(t *testing.T) {
	when := time.Date(2025, 11, 3, 10, 0, 0, 0, time.UTC)
	r := start(t, Config{Pools: func(context.Context) []pools.Status {
		return []pools.Status{
			{Pool: "broken", Problems: []pools.Problem{{Kind: pools.Failed, Text: "x"}}},
			{Pool: "vlan100", Usage: pool.Usage{
				Verified: when, Families: []pool.FamilyUsage{{Family: ipam.IPv4, Blocks: 1, Count: pool.Count{Used: 3, Cooling: 4, Free: 5}}},
				Blocks: []pool.BlockUsage{{Block: netip.MustParsePrefix("10.9.0.0/28"), State: "held", Count: pool.Count{Used: 3, Cooling: 4, Free: 5}}},
			}},
		}
	}}, &scripted{})
	if status, _, body := r.exchange("GET", "/v1/pools", ""); status != 200 {
		t.Errorf("status %d: %s", status, body)
	}
	got, err := r.client.Pools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	addresses := api.PoolAddresses{Used: 3, Cooling: 4, Free: 5}
	want := &api.Pools{Pools: []api.Pool{
		{Pool: "broken", Families: []api.PoolFamily{}, Blocks: []api.PoolBlock{}, Problems: []api.PoolProblem{{Problem: "failed", Text: "x"}}},
		{
			Pool: "vlan100", Verified: when, Problems: []api.PoolProblem{},
			Families: []api.PoolFamily{{Family: "ipv4", Blocks: 1, PoolAddresses: addresses}},
			Blocks:   []api.PoolBlock{{Block: "10.9.0.0/28", State: "held", PoolAddresses: addresses}},
		},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if status, _, body := start(t, Config{}, &scripted{}).exchange("GET", "/v1/pools", ""); status != 501 {
		t.Errorf("without pools: status %d: %s", status, body)
	}
	if status, _, body := r.exchange("GET", "/v1/pools", "{}"); status != 400 {
		t.Errorf("with a body: status %d: %s", status, body)
	}
}
