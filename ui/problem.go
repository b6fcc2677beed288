// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ui

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/allocation"
	"github.com/allocnet/allocnet/internal/texts"
)

type problem struct {
	// Kind is what is wrong, and Subject which one of its kind.
	Kind, Subject, Text string
	// Details are more of the text, each by itself.
	Details []string
	// Since is when it was found. Zero: it is not known.
	Since time.Time
	// Allocation has a page with more. Empty: none.
	Allocation string
	// Fix is the command that helps, or says more. Empty: none.
	Fix string
}

type problemsPage struct {
	Problems []problem
	// ReportOnly is whether the agent repairs nothing.
	ReportOnly bool
	Leaks      part[*api.Leaks]
}

func (s *Server) problems(ctx context.Context, _ *http.Request) (content, error) {
	h, err := lookAtAll(ctx, s.config.Agent)
	if err != nil {
		return content{}, err
	}
	isReportOnly := h.Repair.Err == nil && h.Repair.Value.Mode == reportMode
	return content{"problems", "Problems", problemsPage{append(h.problems(), h.ofDrift()...), isReportOnly, h.Leaks}}, nil
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
		all = append(all, problem{Kind: "agent", Subject: "not ready", Text: text, Fix: "allocnet doctor"})
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
			all = append(all, problem{Kind: "agent", Subject: p.subject + " unknown", Text: p.err.Error(), Fix: "allocnet doctor"})
		}
	}
	return all
}

func (h *host) ofNetworks() []problem {
	var all []problem
	if h.Networks.Err == nil {
		for _, text := range h.Networks.Value.Broken {
			all = append(all, problem{Kind: "file", Subject: "not usable", Text: text, Fix: "allocnet networks"})
		}
		for _, n := range h.Networks.Value.Networks {
			if n.Problem != "" {
				all = append(all, problem{Kind: "network", Subject: n.Name, Text: n.Problem, Fix: "allocnet networks " + n.Name})
			}
		}
	}
	if h.Pools.Err == nil {
		for _, p := range h.Pools.Value.Pools {
			for _, is := range p.Problems {
				all = append(all, problem{Kind: "pool", Subject: p.Pool, Text: is.Text + " (" + is.Problem + ")", Fix: "allocnet ipam check " + p.Pool})
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
				all = append(all, problem{Kind: "cluster", Subject: p.Pool, Text: is.Text + " (" + is.Problem + ")", Fix: "allocnet cluster status"})
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
			all = append(all, problem{Kind: "route", Subject: name, Text: fmt.Sprintf("%s of pool %s, %s: %s", r.Block, pool, r.State, r.Reason), Fix: "allocnet cluster status"})
		}
	}
	if n.Probe != nil && n.Probe.Error != "" {
		all = append(all, problem{Kind: "host", Subject: name, Text: fmt.Sprintf("does not reply at %s: %s", n.Probe.Target, n.Probe.Error), Fix: "allocnet cluster status"})
	}
	return all
}

func ofAllocation(a *api.Allocation) []problem {
	var all []problem
	add := func(text, fix string) {
		all = append(all, problem{Kind: "allocation", Subject: short(a.ID), Text: text, Allocation: a.ID, Fix: "allocnet " + fix + " " + a.ID})
	}
	if a.Error != "" {
		add("the record cannot be read: "+a.Error, "check --repair")
	}
	if len(a.Damaged) > 0 {
		add("the record is damaged: "+strings.Join(a.Damaged, "; "), "check --repair")
	}
	for _, n := range a.Attachments {
		at := fmt.Sprintf("%s on %s, %s: ", n.Interface, n.Network, n.Phase)
		if n.Missing != "" {
			add(at+n.Missing, "detach")
		}
		if n.Error != "" {
			add(at+n.Error, "detach")
		}
	}
	return all
}

// reportMode is the repair mode in which the agent repairs nothing.
const reportMode = "report"

// ofRepair returns what attachments of the selected allocations lack, and the allocations that are
// repaired again and again.
func (h *host) ofRepair(selected func(allocation string) bool) []problem {
	if h.Repair.Err != nil {
		return nil
	}
	var all []problem
	waiting := map[string]api.WaitingRepair{}
	for _, w := range h.Repair.Value.Waiting {
		waiting[w.Allocation] = w
	}
	for _, d := range h.Repair.Value.Damaged {
		if selected(d.Allocation) {
			all = append(all, damageProblem(d, waiting[d.Allocation]))
		}
	}
	for _, w := range h.Repair.Value.Waiting {
		isDamaged := func(d api.Damage) bool { return d.Allocation == w.Allocation }
		if selected(w.Allocation) && !slices.ContainsFunc(h.Repair.Value.Damaged, isDamaged) {
			all = append(all, problem{Kind: "drift", Subject: short(w.Allocation), Text: repeatedText(w.Repairs), Details: removers(w.RemovedBy), Allocation: w.Allocation, Fix: "allocnet repair " + w.Allocation})
		}
	}
	return all
}

// damagedIDs are the allocations that lack something; none if that is not known.
func damagedIDs(r part[*api.Repair]) map[string]bool {
	if r.Err != nil {
		return nil
	}
	ids := map[string]bool{}
	for _, d := range r.Value.Damaged {
		ids[d.Allocation] = true
	}
	return ids
}

// damageProblem says what an attachment lacks. Its allocation may wait for the next repair.
func damageProblem(d api.Damage, w api.WaitingRepair) problem {
	p := problem{Kind: "drift", Subject: short(d.Allocation), Allocation: d.Allocation, Since: d.Since, Text: "differs from its record", Fix: "allocnet repair " + d.Allocation}
	if len(d.Unrepairable) > 0 {
		p.Fix += " --reattach"
	}
	switch {
	case d.Network != "":
		p.Text = d.Interface + " on " + d.Network + " is not as it was attached"
	case d.Interface != "":
		p.Text = d.Interface + " is not as it was set up"
	}
	for _, text := range d.Missing {
		p.Details = append(p.Details, "missing: "+text)
	}
	for _, text := range d.Unrepairable {
		p.Details = append(p.Details, "to be attached again: "+text)
	}
	by := slices.Clone(d.RemovedBy)
	for _, r := range w.RemovedBy {
		if !slices.Contains(by, r) {
			by = append(by, r)
		}
	}
	p.Details = append(p.Details, removers(by)...)
	if d.Error != "" {
		p.Details = append(p.Details, "not repaired: "+d.Error)
	}
	if w.Repairs > 0 {
		p.Details = append(p.Details, repeatedText(w.Repairs))
	}
	return p
}

func removers(all []allocation.Remover) []string {
	var texts []string
	for _, r := range all {
		texts = append(texts, "rules of its chains removed by "+r.String())
	}
	return texts
}

func repeatedText(repairs int) string {
	return texts.Counted(repairs, "repair") + " in short succession: the next one waits"
}

// isDamaged tells whether the repairer has found the attachment, or lo, to lack something. What it knows
// of an allocation that waits may be old.
func (h *host) isDamaged(d api.Drift) bool {
	if h.Repair.Err != nil || d.Allocation == "" {
		return false
	}
	if slices.ContainsFunc(h.Repair.Value.Waiting, func(w api.WaitingRepair) bool { return w.Allocation == d.Allocation }) {
		return false
	}
	if d.Interface == "" && strings.HasPrefix(d.Text, "interface lo ") {
		d.Interface = "lo"
	}
	return slices.ContainsFunc(h.Repair.Value.Damaged, func(other api.Damage) bool {
		return other.Allocation == d.Allocation && other.Interface == d.Interface
	})
}
