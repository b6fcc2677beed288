// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ui

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/allocation"
)

// eventsPerAllocation is the most that its page shows.
const eventsPerAllocation = 50

// detailsTimeout bounds what the page waits for the rules of the host: the rest is of more use than
// nothing.
const detailsTimeout = 5 * time.Second

type allocationPage struct {
	*api.Allocation
	Problems []problem
	Details  part[*api.Details]
	Rules    []ownedRule
	Leases   []ownedLease
	Traffic  []ownedTraffic
	// Missing is how many rules the host lacks.
	Missing int
	// Flows are those of the allocation that isolation denied, the last first.
	Flows  []api.DeniedFlow
	Events []event
}

// ownedRule, ownedLease and ownedTraffic are those of an interface.
type (
	ownedRule struct {
		Interface string
		allocation.Rule
	}
	ownedLease struct {
		Interface string
		allocation.Lease
	}
	ownedTraffic struct {
		Interface, Network string
		allocation.Traffic
		// Rate is nil while it is not known.
		Rate *rate
	}
)

func (s *Server) allocation(ctx context.Context, r *http.Request) (content, error) {
	id, h := r.PathValue("id"), &host{}
	var p allocationPage
	var err error
	var group sync.WaitGroup
	group.Go(func() { p.Allocation, err = s.config.Agent.Allocation(ctx, id) })
	group.Go(func() { h.Repair = ask(ctx, s.config.Agent.Repair) })
	group.Go(func() { p.denied(ask(ctx, s.config.Agent.Denied), id) })
	group.Go(func() {
		limited, stop := context.WithTimeout(ctx, detailsTimeout)
		defer stop()
		p.Details = ask(limited, func(ctx context.Context) (*api.Details, error) { return s.config.Agent.Details(ctx, id) })
	})
	group.Wait()
	if err != nil {
		return content{}, err
	}
	p.Problems = slices.Concat(ofAllocation(p.Allocation), h.unread(), h.ofRepair(func(damaged string) bool { return damaged == id }))
	p.Events = eventsOf(s.feed.newest(eventsPerAllocation, func(e api.Event) bool { return e.Allocation == id }))
	p.list()
	p.count(&s.rates, s.now())
	return content{"allocation", short(id), p}, nil
}

// flowsPerAllocation is the most that its page shows.
const flowsPerAllocation = 50

// denied takes the flows of the allocation, which some agents do not know.
func (p *allocationPage) denied(all part[*api.DeniedFlows], id string) {
	if all.Err != nil {
		return
	}
	for _, f := range slices.Backward(all.Value.Flows) {
		if (f.From.Allocation == id || f.To.Allocation == id) && len(p.Flows) < flowsPerAllocation {
			p.Flows = append(p.Flows, f)
		}
	}
}

func (p *allocationPage) list() {
	if p.Details.Err != nil {
		return
	}
	for _, d := range p.Details.Value.Attachments {
		for _, r := range d.Rules {
			p.Rules = append(p.Rules, ownedRule{d.Interface, r})
			if !r.Present {
				p.Missing++
			}
		}
		for _, l := range d.Leases {
			p.Leases = append(p.Leases, ownedLease{d.Interface, l})
		}
	}
}

func (p *allocationPage) count(r *rates, now time.Time) {
	if p.Details.Err != nil {
		return
	}
	for _, d := range p.Details.Value.Attachments {
		if d.Traffic != nil {
			p.Traffic = append(p.Traffic, ownedTraffic{d.Interface, d.Network, *d.Traffic, r.add(p.ID, d.Interface, *d.Traffic, now)})
		}
	}
}

// Of returns the details of an attachment; nil if they are not known.
func (p allocationPage) Of(iface string) *allocation.Details {
	if p.Details.Err != nil {
		return nil
	}
	at := slices.IndexFunc(p.Details.Value.Attachments, func(d allocation.Details) bool { return d.Interface == iface })
	if at < 0 {
		return nil
	}
	return &p.Details.Value.Attachments[at]
}

// JSON is the allocation as the agent's API gives it.
func (p allocationPage) JSON() string {
	data, err := json.Marshal(p.Allocation)
	if err != nil { // no value of it can fail
		return err.Error()
	}
	return indented(data)
}

func indented(data json.RawMessage) string {
	var out bytes.Buffer
	if json.Indent(&out, data, "", "  ") != nil {
		return string(data)
	}
	return out.String()
}
