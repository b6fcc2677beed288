// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package repair

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/hook"
)

// TestStatus: all that is known of attachments is told, in their order, with empty lists where there is nothing.
func TestStatus(t *testing.T) {
	r := New(Config{}, hook.RepairRules)
	if diff := cmp.Diff(api.Repair{Mode: "rules", Damaged: []api.Damage{}, Waiting: []api.WaitingRepair{}}, r.Status()); diff != "" {
		t.Error(diff)
	}
	since, by := time.Unix(1, 0), []hook.Remover{{Name: "nft", PID: 13}}
	full := hook.Drift{Allocation: "web-1", Network: "web", Interface: "eth0", Missing: []string{"a rule"}, Unrepairable: []string{"the interface"}, RemovedBy: by, Err: errors.New("x")}
	r.known[attachment{"web-2", "lo"}] = damage{hook.Drift{Allocation: "web-2", Interface: "lo"}, since}
	r.known[attachment{"web-1", "eth0"}] = damage{full, since}
	r.series["web-2"], r.series["web-1"], r.series["web-3"] = &series{count: 7, steps: 1}, &series{count: 9, steps: 2, removers: by}, &series{count: 1}
	r.publish()
	want := api.Repair{
		Mode: "rules", Waiting: []api.WaitingRepair{{Allocation: "web-1", Repairs: 9, RemovedBy: by}, {Allocation: "web-2", Repairs: 7}},
		Damaged: []api.Damage{
			{Allocation: "web-1", Network: "web", Interface: "eth0", Since: since, Missing: []string{"a rule"}, Unrepairable: []string{"the interface"}, RemovedBy: by, Error: "x"},
			{Allocation: "web-2", Interface: "lo", Since: since, Missing: []string{}, Unrepairable: []string{}},
		},
	}
	if diff := cmp.Diff(want, r.Status()); diff != "" {
		t.Error(diff)
	}
}
