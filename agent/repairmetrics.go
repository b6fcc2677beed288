// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/agent/repair"
)

var (
	damagedDesc  = prometheus.NewDesc("allocnet_repair_damaged_attachments", "Attachments that lack something, and are not repaired.", []string{"network"}, nil)
	repeatedDesc = prometheus.NewDesc("allocnet_repair_waiting_allocations", "Allocations whose repairs fail, or that were repaired so often that the next repair waits.", nil, nil)
)

// repairCollector reads the state at each scrape.
type repairCollector struct{ status func() api.Repair }

func (repairCollector) Describe(to chan<- *prometheus.Desc) {
	to <- damagedDesc
	to <- repeatedDesc
}

func (c repairCollector) Collect(to chan<- prometheus.Metric) {
	s := c.status()
	damaged := map[string]int{}
	for _, d := range s.Damaged {
		damaged[d.Network]++
	}
	for network, n := range damaged {
		to <- gauge(damagedDesc, float64(n), network)
	}
	to <- gauge(repeatedDesc, float64(len(s.Waiting)))
}

func (a *Agent) getRepair(*http.Request) (any, error) { return a.config.Repair(), nil }

var _ repair.Observer = (*Metrics)(nil)

// registerRepair registers what is counted of repairs.
func (m *Metrics) registerRepair(r *prometheus.Registry) {
	m.drifts = counter("allocnet_repair_found_total", "Attachments that were found to lack something.", "network")
	m.repairs = counter("allocnet_repairs_total", "Repairs of attachments.", "network", "outcome")
	m.repaired = histogram("allocnet_repair_delay_seconds", "Time from the kernel's message that something was removed until the attachment was repaired.", durations, "network")
	r.MustRegister(m.drifts, m.repairs, m.repaired)
}

// Drifted counts an attachment that lacks something.
func (m *Metrics) Drifted(network string) {
	m.drifts.WithLabelValues(network).Inc()
	for _, outcome := range []string{"done", "failed"} { // increase() does not see a counter that appears with 1
		m.repairs.WithLabelValues(network, outcome)
	}
}

// Repaired counts a repair.
func (m *Metrics) Repaired(network string, took time.Duration, err error) {
	m.repairs.WithLabelValues(network, outcome(err)).Inc()
	if err == nil && took > 0 {
		m.repaired.WithLabelValues(network).Observe(took.Seconds())
	}
}
