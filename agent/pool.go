// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/cluster/pools"
)

var (
	ipamAddressesDesc = prometheus.NewDesc("allocnet_ipam_addresses", "Addresses of the blocks that this host holds of a pool, by state: free, used or cooling.", []string{"pool", "family", "state"}, nil)
	ipamBlocksDesc    = prometheus.NewDesc("allocnet_ipam_blocks", "Blocks that this host holds of a pool.", []string{"pool", "family"}, nil)
	ipamVerifiedDesc  = prometheus.NewDesc("allocnet_ipam_verified_seconds", "Seconds since the blocks of this host were verified with the store.", []string{"pool"}, nil)
	ipamFenceDesc     = prometheus.NewDesc("allocnet_ipam_fence_seconds", "Seconds without verification after which this host assigns no new address of the pool.", []string{"pool"}, nil)
	ipamConflictsDesc = prometheus.NewDesc("allocnet_ipam_conflicts_total", "Addresses of a pool that a probe found in use by another host before this host assigned them.", []string{"pool"}, nil)
	ipamProblemsDesc  = prometheus.NewDesc("allocnet_ipam_problems", "1 for each kind of problem that a pool has, else 0.", []string{"pool", "problem"}, nil)
)

// poolCollector reads the records of allocnet-ipam at each scrape, so that it includes the
// addresses that the plugin assigns.
type poolCollector struct {
	status func(context.Context) []pools.Status
}

func (poolCollector) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{ipamAddressesDesc, ipamBlocksDesc, ipamVerifiedDesc, ipamFenceDesc, ipamConflictsDesc, ipamProblemsDesc} {
		to <- desc
	}
}

func (c poolCollector) Collect(to chan<- prometheus.Metric) {
	ctx, stop := context.WithTimeout(context.Background(), scrapeTimeout)
	defer stop()
	for _, s := range c.status(ctx) {
		for _, f := range s.Usage.Families {
			family := fmt.Sprintf("ipv%d", f.Family)
			to <- gauge(ipamAddressesDesc, float64(f.Free), s.Pool, family, "free")
			to <- gauge(ipamAddressesDesc, float64(f.Used), s.Pool, family, "used")
			to <- gauge(ipamAddressesDesc, float64(f.Cooling), s.Pool, family, "cooling")
			to <- gauge(ipamBlocksDesc, float64(f.Blocks), s.Pool, family)
		}
		if s.Fence > 0 {
			to <- gauge(ipamFenceDesc, s.Fence.Seconds(), s.Pool)
		}
		if !s.Usage.Verified.IsZero() {
			to <- gauge(ipamVerifiedDesc, max(0, time.Since(s.Usage.Verified)).Seconds(), s.Pool)
		}
		to <- prometheus.MustNewConstMetric(ipamConflictsDesc, prometheus.CounterValue, float64(s.Usage.Conflicts), s.Pool)
		has := map[pools.Kind]float64{}
		for _, p := range s.Problems {
			has[p.Kind] = 1
		}
		for _, kind := range pools.Kinds {
			to <- gauge(ipamProblemsDesc, has[kind], s.Pool, string(kind))
		}
	}
}

var _ pools.Observer = (*Metrics)(nil)

// StoreCall counts a request to the store of a pool.
func (m *Metrics) StoreCall(operation, code string, took time.Duration) {
	m.storeCalls.WithLabelValues(operation, code).Observe(took.Seconds())
}

// Claim counts an attempt to claim a block.
func (m *Metrics) Claim(pool, outcome string) { m.claims.WithLabelValues(pool, outcome).Inc() }

// storeDurations are buckets in seconds, from a server on this host to an election.
var storeDurations = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}

func (a *Agent) getPools(r *http.Request) (any, error) {
	wire := &api.Pools{Pools: []api.Pool{}}
	for _, s := range a.config.Pools(r.Context()) {
		wire.Pools = append(wire.Pools, wirePoolUsage(s))
	}
	return wire, nil
}

func wirePoolUsage(s pools.Status) api.Pool {
	wire := api.Pool{Pool: s.Pool, Families: []api.PoolFamily{}, Blocks: []api.PoolBlock{}, Verified: s.Usage.Verified, Problems: []api.PoolProblem{}}
	for _, f := range s.Usage.Families {
		wire.Families = append(wire.Families, api.PoolFamily{Family: fmt.Sprintf("ipv%d", f.Family), Blocks: f.Blocks, PoolAddresses: api.PoolAddresses(f.Count)})
	}
	for _, b := range s.Usage.Blocks {
		wire.Blocks = append(wire.Blocks, api.PoolBlock{Block: b.Block.String(), State: b.State, PoolAddresses: api.PoolAddresses(b.Count)})
	}
	for _, p := range s.Problems {
		wire.Problems = append(wire.Problems, api.PoolProblem{Problem: string(p.Kind), Text: p.Text})
	}
	return wire
}
