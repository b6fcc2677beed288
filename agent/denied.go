// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"
	"net/http"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/allocation"
	"github.com/allocnet/allocnet/hook"
)

// addDenied fills in what isolation has dropped, and tells whether that is known.
func (c Config) addDenied(ctx context.Context, all ...*hook.Allocation) bool {
	if c.AddDenied == nil {
		return false
	}
	err := c.AddDenied(ctx, all...)
	if err != nil {
		c.Logger.Debug("it is not known what isolation has dropped", "error", err)
	}
	return err == nil
}

func (a *Agent) getDenied(*http.Request) (any, error) {
	flows, deaf := a.config.Denied()
	wire := &api.DeniedFlows{Flows: append([]allocation.DeniedFlow{}, flows...)}
	if deaf != nil {
		wire.Deaf = deaf.Error()
	}
	return wire, nil
}

var (
	deniedPacketsDesc = prometheus.NewDesc("allocnet_denied_packets_total", "Packets to and from attachments that isolation denied, by network.", []string{"network"}, nil)
	deniedBytesDesc   = prometheus.NewDesc("allocnet_denied_bytes_total", "Bytes of these packets.", []string{"network"}, nil)
	forgedPacketsDesc = prometheus.NewDesc("allocnet_forged_packets_total", "Packets that attachments sent as others, and that were dropped, by network.", []string{"network"}, nil)
)

// deniedCounter makes counters of networks, which grow as long as the agent runs, of those of attachments, which end with them.
type deniedCounter struct {
	mu sync.Mutex
	// last are the counts of attachments, by allocation and interface, and total those of networks.
	last  map[string]map[string]allocation.Denied
	total map[string]allocation.Denied
}

func (c *deniedCounter) describe(to chan<- *prometheus.Desc) {
	to <- deniedPacketsDesc
	to <- deniedBytesDesc
	to <- forgedPacketsDesc
}

// count adds what is new since the last time. A count that is less than it was began again. What was counted before the agent began is not
// counted again.
func (c *deniedCounter) count(all []*hook.Allocation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.total == nil {
		c.total = map[string]allocation.Denied{}
	}
	last := map[string]map[string]allocation.Denied{}
	for _, a := range all {
		last[a.ID] = map[string]allocation.Denied{}
		for _, n := range a.Attachments {
			if n.Denied == nil {
				continue
			}
			last[a.ID][n.Interface] = *n.Denied
			before := c.last[a.ID][n.Interface]
			if c.last == nil {
				before = *n.Denied
			}
			c.total[n.Network] = plus(c.total[n.Network], *n.Denied, before)
		}
	}
	c.last = last
}

// plus adds to a sum what a count has more than before.
func plus(sum, now, before allocation.Denied) allocation.Denied {
	if now.Packets < before.Packets || now.Bytes < before.Bytes || now.Forged < before.Forged {
		before = allocation.Denied{}
	}
	return allocation.Denied{
		Packets: sum.Packets + now.Packets - before.Packets, Bytes: sum.Bytes + now.Bytes - before.Bytes, Forged: sum.Forged + now.Forged - before.Forged,
	}
}

func (c *deniedCounter) collect(to chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for network, d := range c.total {
		for desc, value := range map[*prometheus.Desc]uint64{deniedPacketsDesc: d.Packets, deniedBytesDesc: d.Bytes, forgedPacketsDesc: d.Forged} {
			to <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(value), network)
		}
	}
}
