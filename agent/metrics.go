// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/version"
)

// Metrics has the metrics of the agent and its engine. It is the engine's observer.
type Metrics struct {
	registry   *prometheus.Registry
	requests   *prometheus.CounterVec
	operations *prometheus.HistogramVec
	cniCalls   *prometheus.HistogramVec
	retries    *prometheus.CounterVec
	cleanups   *prometheus.CounterVec
	found      *prometheus.CounterVec
	removed    *prometheus.CounterVec
	rounds     *prometheus.CounterVec
	reloads    *prometheus.CounterVec
	storeCalls *prometheus.HistogramVec
	claims     *prometheus.CounterVec
	changes    *prometheus.CounterVec
	routed     *prometheus.HistogramVec
	probes     *prometheus.HistogramVec
	silent     *prometheus.CounterVec
	drifts     *prometheus.CounterVec
	repairs    *prometheus.CounterVec
	repaired   *prometheus.HistogramVec
}

var _ hook.Observer = (*Metrics)(nil)

// NewMetrics registers the metrics. Registering twice in one registry panics.
func NewMetrics(r *prometheus.Registry) *Metrics {
	m := &Metrics{
		registry:   r,
		requests:   counter("allocnet_requests_total", "Requests answered, by handler, HTTP status and method.", "handler", "code", "method"),
		operations: histogram("allocnet_operation_duration_seconds", "Duration of one operation on one attachment, all attempts included.", durations, "operation", "network", "outcome"),
		cniCalls:   histogram("allocnet_cni_call_duration_seconds", "Duration of one call of allocnet-cni that was delegated to the agent.", durations, "verb", "outcome"),
		retries:    counter("allocnet_retries_total", "Attempts of an operation after the first.", "operation", "network"),
		cleanups: counter("allocnet_forced_cleanups_total",
			"Attachments removed by forced cleanup, because DEL failed or is not reliable without the namespace.", "network", "outcome"),
		found:      counter("allocnet_leaks_found_total", "Leaks found by the reconciler, by kind.", "kind"),
		removed:    counter("allocnet_leaks_removed_total", "Leaks removed by the reconciler, by kind.", "kind"),
		rounds:     counter("allocnet_reconcile_rounds_total", "Rounds of the reconciler; unknown: the live allocations were unknown.", "outcome"),
		reloads:    counter("allocnet_config_reloads_total", "Reloads of the configuration, and writes of the conflist.", "outcome"),
		storeCalls: histogram("allocnet_ipam_store_duration_seconds", "Duration of one request of the agent to the store of allocnet-ipam. watch waits for a change.", storeDurations, "operation", "code"),
		claims:     counter("allocnet_ipam_claims_total", "Attempts of the agent to claim a block; taken: another host has it.", "pool", "outcome"),
	}
	for _, outcome := range []string{"done", "failed"} { // increase() does not see a counter that appears with 1
		m.rounds.WithLabelValues(outcome)
		m.reloads.WithLabelValues(outcome)
	}
	m.rounds.WithLabelValues("unknown")
	r.MustRegister(m.requests, m.operations, m.cniCalls, m.retries, m.cleanups, m.found, m.removed, m.rounds, m.reloads, m.storeCalls, m.claims, buildInfo())
	m.registerCluster(r)
	m.registerRepair(r)
	return m
}

// Handler returns the page of the metrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// buildInfo is 1, with the release, the commit and the version of Go as labels.
func buildInfo() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "allocnet_build_info", Help: "1, with what this program was built from.",
		ConstLabels: prometheus.Labels{"version": version.Version, "commit": version.Commit(), "go": runtime.Version()},
	}, func() float64 { return 1 })
}

func histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
}

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

// durations are buckets in seconds, from a fast plugin to a call that hangs.
var durations = []float64{.025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120}

// methods bounds the values of a label that clients choose.
var methods = map[string]bool{http.MethodGet: true, http.MethodPut: true, http.MethodPost: true, http.MethodDelete: true}

func (m *Metrics) request(handler, method string, status int) {
	if !methods[method] {
		method = "other"
	}
	m.requests.WithLabelValues(handler, strconv.Itoa(status), method).Inc()
}

func outcome(err error) string {
	if err != nil {
		return "failed"
	}
	return "done"
}

// Observe counts an operation on an attachment.
func (m *Metrics) Observe(o hook.Observation) {
	if o.Network == "" || o.Op == hook.OpRetry { // no operation on an attachment, or a part of one
		return
	}
	if o.Op == hook.OpCleanup {
		m.cleanups.WithLabelValues(o.Network, outcome(o.Err)).Inc()
		return
	}
	op := string(o.Op)
	m.operations.WithLabelValues(op, o.Network, outcome(o.Err)).Observe(o.Took.Seconds())
	if o.Attempts > 1 {
		m.retries.WithLabelValues(op, o.Network).Add(float64(o.Attempts - 1))
	}
}

func (m *Metrics) round(outcome string) { m.rounds.WithLabelValues(outcome).Inc() }

func (m *Metrics) leaks(kind string, found, removed int) {
	m.found.WithLabelValues(kind).Add(float64(found))
	m.removed.WithLabelValues(kind).Add(float64(removed))
}

// verbs bounds the values of a label that clients choose.
var verbs = []string{"ADD", "DEL", "CHECK", "GC", "STATUS", "VERSION"}

func (m *Metrics) cniCall(verb string, took time.Duration, err error) {
	if !slices.Contains(verbs, verb) {
		verb = "other"
	}
	m.cniCalls.WithLabelValues(verb, outcome(err)).Observe(took.Seconds())
}

// Reloaded counts a reload of configuration.
func (m *Metrics) Reloaded(err error) { m.reloads.WithLabelValues(outcome(err)).Inc() }

// scrapeTimeout bounds what a scrape reads from disk.
const scrapeTimeout = 10 * time.Second
