// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"context"
	"errors"
	"testing"

	"github.com/allocnet/allocnet/hook"
)

// TestDrifts: each attachment that lacks something is a finding, once; so is an allocation that another call keeps from being looked at,
// and one whose namespace is gone is none.
func TestDrifts(t *testing.T) {
	drifts := []hook.Drift{
		{Allocation: "a", Network: "web", Interface: "eth0", Missing: []string{"bridge web0", "port vethab of the bridge web0"}},
		{Allocation: "b", Interface: "lo", Missing: []string{"interface lo is down"}},
		{Allocation: "c", Network: "web", Interface: "eth0", Missing: []string{"1", "2", "3", "4", "5", "6", "7"}},
		{Allocation: "d", Network: "web", Interface: "eth0", Unrepairable: []string{"interface is gone"}, Missing: []string{"a rule"}},
		{Allocation: "e", Network: "web", Interface: "eth0", Err: errors.New("iptables is missing")},
		{Allocation: "f", Skipped: hook.SkippedBusy},
		{Allocation: "g", Err: &hook.DamagedRecordError{}},
		{Allocation: "h", Skipped: "its namespace is gone"},
	}
	r := &Report{}
	(&Doctor{Drifts: func(context.Context) ([]hook.Drift, error) { return drifts, errors.New("stopped") }}).drifts(t.Context(), r)
	requireFindings(t, r,
		"error attachments: cannot be compared with the host: stopped => fix the cause that the error names",
		"error a: eth0 on web lacks: bridge web0, port vethab of the bridge web0 => allocnet repair a",
		"error b: lo lacks: interface lo is down => allocnet repair b",
		"error c: eth0 on web lacks: 1, 2, 3, 4, 5, and 2 more => allocnet repair c",
		"error d: eth0 on web lacks: interface is gone => allocnet repair d --reattach, or stop the allocation and start it again",
		"error e: cannot be compared with the host: iptables is missing => fix the cause that the error names, then: allocnet repair e",
		"warning f: is not compared with the host: another call is changing it => run allocnet doctor again when that call has ended",
	)
	r = &Report{}
	driftFindings(r, []hook.Drift{{Allocation: "f", Skipped: hook.SkippedBusy}})
	if r.Healthy() {
		t.Error("an allocation that was not looked at is healthy")
	}
}
