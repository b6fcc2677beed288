// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/allocnet/allocnet/cluster/span"
)

var (
	clusterRoutesDesc   = prometheus.NewDesc("allocnet_cluster_routes", "Blocks of other hosts, by state of the route: installed, refused, conflict, failed, or replaced by this host.", []string{"pool", "state"}, nil)
	clusterNodesDesc    = prometheus.NewDesc("allocnet_cluster_nodes", "Hosts that have blocks, by their reply to the last probe: reachable, unreachable or unknown.", []string{"pool", "state"}, nil)
	clusterProblemsDesc = prometheus.NewDesc("allocnet_cluster_problems", "1 for each kind of problem of a pool whose network spans hosts, else 0.", []string{"pool", "problem"}, nil)
)

// clusterCollector reads the state at each scrape.
type clusterCollector struct{ status func() []span.Status }

func (clusterCollector) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{clusterRoutesDesc, clusterNodesDesc, clusterProblemsDesc} {
		to <- desc
	}
}

func (c clusterCollector) Collect(to chan<- prometheus.Metric) {
	for _, s := range c.status() {
		routes := map[string]int{"installed": 0, "refused": 0, "conflict": 0, "failed": 0, "replaced": 0}
		nodes := map[string]int{"reachable": 0, "unreachable": 0, "unknown": 0}
		for i := range s.Nodes {
			nodes[reachability(s.Nodes[i].Probe)]++
			for _, r := range s.Nodes[i].Routes {
				routes[string(r.State)]++
			}
		}
		for state, n := range routes {
			to <- gauge(clusterRoutesDesc, float64(n), s.Pool, state)
		}
		for state, n := range nodes {
			to <- gauge(clusterNodesDesc, float64(n), s.Pool, state)
		}
		problems := map[span.Kind]float64{}
		for _, p := range s.Problems {
			problems[p.Kind] = 1
		}
		for _, kind := range span.Kinds {
			to <- gauge(clusterProblemsDesc, problems[kind], s.Pool, string(kind))
		}
	}
}

func reachability(p span.Probe) string {
	switch {
	case p.Time.IsZero():
		return "unknown"
	case p.Err != nil:
		return "unreachable"
	}
	return "reachable"
}

var _ span.Observer = (*Metrics)(nil)

// registerCluster registers what is counted of networks that span hosts.
func (m *Metrics) registerCluster(r *prometheus.Registry) {
	m.changes = counter("allocnet_cluster_changes_total", "Changes of the kernel's routes, neighbours, forwarding databases and devices: added, replaced or removed.", "pool", "change")
	m.routed = histogram("allocnet_cluster_route_delay_seconds", "Time from the store's answer that blocks have changed until the kernel's tables were right.", storeDurations, "pool")
	m.probes = histogram("allocnet_cluster_probe_duration_seconds", "Time until a host replied to an echo request.", probeDurations, "pool")
	m.silent = counter("allocnet_cluster_probe_failures_total", "Probes that a host did not reply to, after three requests.", "pool")
	r.MustRegister(m.changes, m.routed, m.probes, m.silent)
}

// probeDurations are buckets in seconds, from a neighbour in a rack to another continent.
var probeDurations = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1}

// Applied counts changes of the kernel's tables.
func (m *Metrics) Applied(pool string, added, replaced, removed int) {
	for change, n := range map[string]int{"added": added, "replaced": replaced, "removed": removed} {
		m.changes.WithLabelValues(pool, change).Add(float64(n))
	}
}

// Routed observes how long it took until changed blocks were routed.
func (m *Metrics) Routed(pool string, took time.Duration) {
	m.routed.WithLabelValues(pool).Observe(took.Seconds())
}

// Probed counts a probe.
func (m *Metrics) Probed(pool string, took time.Duration, err error) {
	if err != nil {
		m.silent.WithLabelValues(pool).Inc()
		return
	}
	m.silent.WithLabelValues(pool) // increase() does not see a counter that appears with 1
	m.probes.WithLabelValues(pool).Observe(took.Seconds())
}
