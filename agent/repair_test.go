// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/allocation"
)

// TestRepair: what attachments lack is as the description says, in the answer and in the metrics.
func TestRepair(t *testing.T) {
	since := time.Unix(1, 0).UTC()
	want := &api.Repair{
		Mode: "rules", Waiting: []api.WaitingRepair{{Allocation: "web-1", Repairs: 9, RemovedBy: []allocation.Remover{{Name: "iptables", PID: 12, Parent: "dockerd"}}}, {Allocation: "web-2", Repairs: 7}},
		Damaged: []api.Damage{
			{Allocation: "web-1", Network: "web", Interface: "eth0", Since: since, Missing: []string{"a rule"}, Unrepairable: []string{"the interface"}, RemovedBy: []allocation.Remover{{Name: "nft", PID: 13}}, Error: "x"},
			{Allocation: "web-2", Interface: "lo", Since: since, Missing: []string{}, Unrepairable: []string{}},
		},
	}
	r := start(t, Config{Repair: func() api.Repair { return *want }}, &scripted{})
	got, err := r.client.Repair(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if status, _, body := r.exchange("GET", "/v1/repair", ""); status != 200 || !strings.Contains(body, `"mode":"rules"`) {
		t.Errorf("%d %s", status, body)
	}
	page := httptest.NewRecorder()
	r.agent.metrics.Handler().ServeHTTP(page, httptest.NewRequest("GET", "/metrics", nil))
	for _, line := range []string{`allocnet_repair_damaged_attachments{network="web"} 1`, "allocnet_repair_waiting_allocations 2"} {
		if !strings.Contains(page.Body.String(), line+"\n") {
			t.Errorf("no metric %s", line)
		}
	}
}

// TestRepairRequests: a hook that attaches nothing has nothing to repair, and a body is refused.
func TestRepairRequests(t *testing.T) {
	if status, _, body := start(t, Config{}, &scripted{}).exchange("GET", "/v1/repair", ""); status != 501 {
		t.Errorf("%d %s, want 501", status, body)
	}
	r := start(t, Config{Repair: func() api.Repair { return api.Repair{} }}, &scripted{})
	if status, _, body := r.exchange("GET", "/v1/repair", "{}"); status != 400 {
		t.Errorf("%d %s, want 400", status, body)
	}
}
