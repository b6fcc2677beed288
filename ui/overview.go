// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ui

import (
	"context"
	"net/http"

	"github.com/allocnet/allocnet/agent/api"
)

const (
	// shownProblems and shownEvents are the most that the overview shows.
	shownProblems = 5
	shownEvents   = 8
)

type overviewPage struct {
	*host
	Problems []problem
	// Found is the number of problems, and More how many of them are not shown.
	Found, More int
	Attachments int
	// ByNetwork counts the attachments to each network.
	ByNetwork map[string]int
	// Denied counts the packets of each network that isolation has dropped.
	Denied map[string]uint64
	// Reached of Nodes answer.
	Reached, Nodes int
	Charts         []chart
	Events         []event
}

func (s *Server) overview(ctx context.Context, _ *http.Request) (content, error) {
	h, err := look(ctx, s.config.Agent)
	if err != nil {
		return content{}, err
	}
	p := overviewPage{host: h, Problems: h.problems(), ByNetwork: map[string]int{}, Denied: map[string]uint64{}, Charts: s.charts()}
	p.Found = len(p.Problems)
	if excess := p.Found - shownProblems; excess > 0 {
		p.Problems, p.More = p.Problems[:shownProblems], excess
	}
	for _, a := range h.Allocations.Value {
		p.Attachments += len(a.Attachments)
		for _, n := range a.Attachments {
			p.ByNetwork[n.Network]++
			if n.Denied != nil {
				p.Denied[n.Network] += n.Denied.Packets + n.Denied.Forged
			}
		}
	}
	p.countNodes()
	p.Events = eventsOf(s.feed.newest(shownEvents, func(api.Event) bool { return true }))
	return content{"overview", "Overview", p}, nil
}

// countNodes counts each host once.
func (p *overviewPage) countNodes() {
	if p.Cluster.Err != nil {
		return
	}
	states := map[string]string{}
	for _, pool := range p.Cluster.Value.Pools {
		for _, n := range pool.Nodes {
			if key := n.ID + " " + n.Address; states[key] != "bad" {
				states[key] = reach(n.Probe)
			}
		}
	}
	for _, state := range states {
		p.Nodes++
		if state == "good" {
			p.Reached++
		}
	}
}
