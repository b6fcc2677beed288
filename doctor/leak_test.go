// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"testing"

	"github.com/allocnet/allocnet/cleanup"
)

func TestLeakFindings(t *testing.T) {
	object := func(kind cleanup.Kind, where, blocked string) cleanup.Object {
		return cleanup.Object{Kind: kind, Where: where, Blocked: blocked, Owner: cleanup.Owner{Allocation: "a1", Network: "web"}}
	}
	for name, test := range map[string]struct {
		report cleanup.Report
		want   []string
	}{
		"nothing": {cleanup.Report{Decisions: []cleanup.Decision{{Object: object(cleanup.Lease, "/l", "")}}}, nil},
		"leaks": {cleanup.Report{Decisions: []cleanup.Decision{
			{Object: object(cleanup.Lease, "/l1", ""), Leaked: true},
			{Object: object(cleanup.Ports, "chain x", ""), Leaked: true, Reason: "its namespace is gone"},
			{Object: object(cleanup.Lease, "/l2", ""), Leaked: true},
		}}, []string{
			"error chain x: ports are published for allocation a1 on web, which is dead: its namespace is gone => allocnet cleanup a1",
			"error leaks: left by dead allocations: 2 lease, 1 ports => allocnet gc (allocnet gc --dry-run lists them)",
		}},
		"blocked": {cleanup.Report{Decisions: []cleanup.Decision{{Object: object(cleanup.Masquerade, "chain y", "another rule jumps to it"), Leaked: true}}}, []string{
			"error chain y: is leaked and cannot be removed: another rule jumps to it => remove that rule, then: allocnet gc",
			"error leaks: left by dead allocations: 1 masquerade => allocnet gc (allocnet gc --dry-run lists them)",
		}},
		"problems": {cleanup.Report{Problems: []cleanup.Problem{{Where: "/l/10.0.0.1", Reason: "is a link"}}}, []string{
			"error /l/10.0.0.1: is a link => fix it, or move it away",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Report{}
			leakFindings(r, &test.report)
			requireFindings(t, r, test.want...)
		})
	}
}
