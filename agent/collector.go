// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/hook"
)

var (
	attachmentsDesc = prometheus.NewDesc("allocnet_attachments", "Recorded attachments, by network and phase.", []string{"network", "phase"}, nil)
	poolSizeDesc    = prometheus.NewDesc("allocnet_pool_addresses", "Addresses of a network's host-local ranges.", []string{"network", "family"}, nil)
	poolUsedDesc    = prometheus.NewDesc("allocnet_pool_addresses_used", "Leased addresses of a network's host-local ranges.", []string{"network", "family"}, nil)
	invalidDesc     = prometheus.NewDesc("allocnet_invalid_network_files", "Invalid files in the CNI configuration directories.", nil, nil)
)

// hostCollector reads records and leases at each scrape, so that it includes the
// attachments of commands and of the CNI plugin.
type hostCollector struct {
	engine  Engine
	catalog func() (*cniconf.Catalog, error)
	// addDenied is Config.addDenied.
	addDenied func(ctx context.Context, all ...*hook.Allocation) bool
	log       hclog.Logger
	denied    deniedCounter
}

func (c *hostCollector) Describe(to chan<- *prometheus.Desc) {
	c.denied.describe(to)
	for _, desc := range []*prometheus.Desc{attachmentsDesc, poolSizeDesc, poolUsedDesc, invalidDesc} {
		to <- desc
	}
}

func (c *hostCollector) Collect(to chan<- prometheus.Metric) {
	c.attachments(to)
	catalog, err := c.catalog()
	if err != nil {
		c.log.Warn("metrics without networks", "error", err)
		return
	}
	to <- gauge(invalidDesc, float64(len(catalog.Broken)))
	for _, n := range catalog.Networks {
		usage, err := n.Usage()
		if err != nil {
			c.log.Warn("metrics without all leases of a network", "network", n.Name, "error", err)
		}
		for _, u := range usage {
			total, _ := u.Total.Float64()
			to <- gauge(poolSizeDesc, total, n.Name, u.Family)
			to <- gauge(poolUsedDesc, float64(u.Used), n.Name, u.Family)
		}
	}
}

func (c *hostCollector) attachments(to chan<- prometheus.Metric) {
	ctx, stop := context.WithTimeout(context.Background(), scrapeTimeout)
	defer stop()
	type key struct{ network, phase string }
	count := map[key]int{}
	var all []*hook.Allocation
	isWhole := true
	for allocation, err := range c.engine.List(ctx) {
		if err != nil {
			c.log.Warn("metrics without an allocation", "error", err)
			isWhole = false
			continue
		}
		for _, a := range allocation.Attachments {
			count[key{a.Network, string(a.Phase)}]++
		}
		all = append(all, allocation)
	}
	if c.addDenied(ctx, all...) && isWhole { // one that is missing would be counted again
		c.denied.count(all)
	}
	c.denied.collect(to)
	for k, n := range count {
		to <- gauge(attachmentsDesc, float64(n), k.network, k.phase)
	}
}

func gauge(desc *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
}
