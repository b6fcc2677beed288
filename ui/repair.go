// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ui

import (
	"slices"
	"strings"

	"github.com/allocnet/allocnet/agent/api"
)

// reportMode is the repair mode in which the agent repairs nothing.
const reportMode = "report"

func (h *host) isReportOnly() bool { return h.Repair.Err == nil && h.Repair.Value.Mode == reportMode }

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
			all = append(all, problem{Kind: "drift", Subject: short(w.Allocation), Text: repeatedText(w.Repairs), Details: removers(w.RemovedBy), Allocation: w.Allocation})
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
	p := problem{Kind: "drift", Subject: short(d.Allocation), Allocation: d.Allocation, Since: d.Since, Text: "differs from its record"}
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

// removers says who has removed rules.
func removers(all []api.Remover) []string {
	var texts []string
	for _, r := range all {
		texts = append(texts, "rules of its chains removed by "+r.String())
	}
	return texts
}

func repeatedText(repairs int) string {
	return counted(repairs, "repair") + " in short succession: the next one waits"
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
