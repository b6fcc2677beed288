// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/allocnet/allocnet/cniconf"
)

var (
	attachmentsDesc = prometheus.NewDesc("allocnet_attachments", "Attachments on record, by network and phase.", []string{"network", "phase"}, nil)
	poolSizeDesc    = prometheus.NewDesc("allocnet_pool_addresses", "Addresses that a network's host-local ranges can lease.", []string{"network", "family"}, nil)
	poolUsedDesc    = prometheus.NewDesc("allocnet_pool_addresses_used", "Addresses that are leased.", []string{"network", "family"}, nil)
	brokenDesc      = prometheus.NewDesc("allocnet_conf_broken_files", "Files of the conf directory that cannot be used.", nil, nil)
)

// hostCollector looks at the host when it is asked, so that what commands and
// the CNI plugin do beside the agent is counted, too.
type hostCollector struct {
	engine  Engine
	catalog func() (*cniconf.Catalog, error)
	log     hclog.Logger
}

func (c *hostCollector) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{attachmentsDesc, poolSizeDesc, poolUsedDesc, brokenDesc} {
		to <- desc
	}
}

func (c *hostCollector) Collect(to chan<- prometheus.Metric) {
	c.attachments(to)
	catalog, err := c.catalog()
	if err != nil {
		c.log.Warn("metrics of networks are left out", "error", err)
		return
	}
	to <- gauge(brokenDesc, float64(len(catalog.Broken)))
	for _, n := range catalog.Networks {
		for _, p := range poolsOf(n) {
			to <- gauge(poolSizeDesc, p.size, n.Name, p.family)
			to <- gauge(poolUsedDesc, float64(p.used), n.Name, p.family)
		}
	}
}

func (c *hostCollector) attachments(to chan<- prometheus.Metric) {
	ctx, stop := context.WithTimeout(context.Background(), scrapeTimeout)
	defer stop()
	type key struct{ network, phase string }
	count := map[key]int{}
	for allocation, err := range c.engine.List(ctx) {
		if err != nil {
			c.log.Warn("metrics of an allocation are left out", "error", err)
			continue
		}
		for _, a := range allocation.Attachments {
			count[key{a.Network, string(a.Phase)}]++
		}
	}
	for k, n := range count {
		to <- gauge(attachmentsDesc, float64(n), k.network, k.phase)
	}
}

func gauge(desc *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
}
