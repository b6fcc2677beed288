// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ui

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/allocnet/allocnet/agent/api"
)

// problem is something that is wrong on the host.
type problem struct {
	// Kind is what is wrong, and Subject which one of its kind.
	Kind, Subject, Text string
	// Details are more of the text, each by itself.
	Details []string
	// Since is when it was found. Zero: it is not known.
	Since time.Time
	// Allocation has a page with more. Empty: none.
	Allocation string
}

type problemsPage struct {
	Problems []problem
	// ReportOnly is whether the agent repairs nothing.
	ReportOnly bool
	Leaks      part[*api.Leaks]
}

func (s *Server) problems(ctx context.Context, _ *http.Request) (content, error) {
	drawn := make(chan part[*api.Map], 1)
	go func() { drawn <- ask(ctx, s.config.Agent.Map) }()
	h, err := s.look(ctx)
	if err != nil {
		return content{}, err
	}
	h.Map = <-drawn
	return content{"problems", "Problems", problemsPage{append(h.problems(), h.ofDrift()...), h.isReportOnly(), h.Leaks}}, nil
}

// problems returns all but leaks and what only the map has.
func (h *host) problems() []problem {
	all := h.unread()
	all = append(all, h.ofNetworks()...)
	all = append(all, h.ofCluster()...)
	for _, a := range h.Allocations.Value {
		all = append(all, ofAllocation(a)...)
	}
	return append(all, h.ofRepair(func(string) bool { return true })...)
}

// unread returns what the agent says of itself, and does not answer.
func (h *host) unread() []problem {
	var all []problem
	if h.Ready.Err != nil {
		text := h.Ready.Err.Error()
		if refused, ok := errors.AsType[*api.Error](h.Ready.Err); ok && refused.Details != "" {
			text = refused.Details
		}
		all = append(all, problem{Kind: "agent", Subject: "not ready", Text: text})
	}
	for _, p := range []struct {
		subject   string
		err       error
		supported bool
	}{
		{"networks", h.Networks.Err, h.Networks.Supported()}, {"pools", h.Pools.Err, h.Pools.Supported()},
		{"leaks", h.Leaks.Err, h.Leaks.Supported()}, {"cluster", h.Cluster.Err, h.Cluster.Supported()},
		{"drift", h.Map.Err, h.Map.Supported()}, {"repairs", h.Repair.Err, h.Repair.Supported()},
	} {
		if p.err != nil && p.supported {
			all = append(all, problem{Kind: "agent", Subject: p.subject + " unknown", Text: p.err.Error()})
		}
	}
	return all
}

func (h *host) ofNetworks() []problem {
	var all []problem
	if h.Networks.Err == nil {
		for _, text := range h.Networks.Value.Broken {
			all = append(all, problem{Kind: "file", Subject: "not usable", Text: text})
		}
		for _, n := range h.Networks.Value.Networks {
			if n.Problem != "" {
				all = append(all, problem{Kind: "network", Subject: n.Name, Text: n.Problem})
			}
		}
	}
	if h.Pools.Err == nil {
		for _, p := range h.Pools.Value.Pools {
			for _, is := range p.Problems {
				all = append(all, problem{Kind: "pool", Subject: p.Pool, Text: is.Text + " (" + is.Problem + ")"})
			}
		}
	}
	return all
}

func (h *host) ofCluster() []problem {
	if h.Cluster.Err != nil {
		return nil
	}
	var all []problem
	for _, p := range h.Cluster.Value.Pools {
		for _, is := range p.Problems {
			if is.Problem != api.ProblemUnrouted {
				all = append(all, problem{Kind: "cluster", Subject: p.Pool, Text: is.Text + " (" + is.Problem + ")"})
			}
		}
		for _, n := range p.Nodes {
			all = append(all, ofNode(p.Pool, n)...)
		}
	}
	return all
}

func ofNode(pool string, n api.ClusterNode) []problem {
	var all []problem
	name := cmp.Or(n.Name, n.ID, n.Address)
	for _, r := range n.Routes {
		if !r.IsRight() {
			all = append(all, problem{Kind: "route", Subject: name, Text: fmt.Sprintf("%s of pool %s, %s: %s", r.Block, pool, r.State, r.Reason)})
		}
	}
	if n.Probe != nil && n.Probe.Error != "" {
		all = append(all, problem{Kind: "host", Subject: name, Text: fmt.Sprintf("does not reply at %s: %s", n.Probe.Target, n.Probe.Error)})
	}
	return all
}

// ofAllocation returns what is wrong with a record and its attachments.
func ofAllocation(a *api.Allocation) []problem {
	var all []problem
	add := func(text string) {
		all = append(all, problem{Kind: "allocation", Subject: short(a.ID), Text: text, Allocation: a.ID})
	}
	if a.Error != "" {
		add("the record cannot be read: " + a.Error)
	}
	if len(a.Damaged) > 0 {
		add("the record is damaged: " + strings.Join(a.Damaged, "; "))
	}
	for _, n := range a.Attachments {
		for _, what := range []string{n.Missing, n.Error} {
			if what != "" {
				add(fmt.Sprintf("%s on %s, %s: %s", n.Interface, n.Network, n.Phase, what))
			}
		}
	}
	return all
}
