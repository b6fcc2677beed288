// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ui

import (
	"strings"
	"testing"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/allocation"
)

// TestDriftOnce: what both the repairer and the map have found is one problem, and what only one of
// them has is not lost.
func TestDriftOnce(t *testing.T) {
	r, nft := start(t), allocation.Remover{Name: "nft", PID: 9, Parent: "bash"}
	r.agent.Set(api.PathMap, api.Map{Drift: []api.Drift{
		{Network: "web", Text: "web0 is down"},
		{Allocation: "a", Text: "interface lo is down: set it up"},
		{Allocation: "a", Text: "default route via 10.0.0.1 dev wg0 is beside another"},
		{Network: "web", Allocation: "a", Interface: "eth0", Text: "interface is down"},
		{Network: "web", Allocation: "b", Interface: "eth0", Text: "address is gone"},
		{Network: "web", Allocation: "w", Interface: "eth0", Text: "interface eth0 is missing"},
	}})
	r.agent.Set(api.PathRepair, api.Repair{Mode: "report", Damaged: []api.Damage{
		{Allocation: "a", Interface: "lo", Missing: []string{"interface lo is down"}},
		{Allocation: "a", Network: "web", Interface: "eth0", Missing: []string{"state of eth0"}, Unrepairable: []string{"interface eth0"}, RemovedBy: []allocation.Remover{nft}},
		{Allocation: "c", Error: "a plugin hangs"},
		{Allocation: "w", Network: "web", Interface: "eth0", Missing: []string{"rule in chain X"}},
	}, Waiting: []api.WaitingRepair{{Allocation: "w", Repairs: 7, RemovedBy: []allocation.Remover{nft}}, {Allocation: "d", Repairs: 1, RemovedBy: []allocation.Remover{{Name: "firewalld", PID: 8}}}}})
	body := r.enter().page("problems").body
	if got := strings.Count(body, ">drift<"); got != 9 {
		t.Errorf("%d problems, want 9: %s", got, body)
	}
	for _, text := range []string{
		"web0 is down", "lo is not as it was set up", "beside another", "missing: state of eth0", "to be attached again: interface eth0", "address is gone", "differs from its record", "a plugin hangs",
		"7 repairs in short", "eth0 on web: interface eth0 is missing", "rules of its chains removed by firewalld (PID 8)<", "1 repair in short", "repair mode is <code>report</code>",
	} {
		if !strings.Contains(body, text) {
			t.Errorf("no %q", text)
		}
	}
	if got := strings.Count(body, "rules of its chains removed by nft (PID 9), started by bash"); got != 2 { // of a, and of w
		t.Errorf("who has removed it is told %d times, want 2", got)
	}
	if strings.Contains(body, "eth0 on web: interface is down") || strings.Contains(body, "set it up") {
		t.Error("what the repairer has found is there twice")
	}
	r.agent.Set(api.PathAllocations, []*api.Allocation{{ID: "a"}})
	if body := r.page("allocations/a").body; strings.Count(body, ">drift<") != 2 || strings.Contains(body, "a plugin hangs") {
		t.Errorf("the page of an allocation has not just its own: %s", body)
	}
	r.agent.Set(api.PathRepair, &api.Error{CNIVersion: "1.1.0", Code: 999, Msg: "disk full", Status: 500})
	r.requireText("problems", "repairs unknown", "disk full", "eth0 on web: interface is down")
	r.requireText("allocations/a", "disk full")
}
