// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"net/netip"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"
)

var publishedDesc = prometheus.NewDesc("allocnet_published_address", "1 for each address that this host has for the ports of an allocation (publishAddress).", []string{"address", "interface"}, nil)

// publishedCollector asks the kernel at each scrape which addresses the host has for ports.
type publishedCollector struct {
	published func() (map[netip.Addr]string, error)
	log       hclog.Logger
}

func (publishedCollector) Describe(to chan<- *prometheus.Desc) { to <- publishedDesc }

func (c publishedCollector) Collect(to chan<- prometheus.Metric) {
	held, err := c.published()
	if err != nil {
		c.log.Warn("metrics without the addresses that ports are published on", "error", err)
	}
	for address, iface := range held {
		to <- gauge(publishedDesc, 1, address.String(), iface)
	}
}
