// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/allocnet/allocnet/cleanup"
)

func (d *Doctor) leaks(ctx context.Context, r *Report) {
	report, err := d.Collector.Examine(ctx, cleanup.Scope{}, cleanup.NoneLive)
	if err != nil {
		r.addError("leaks", "cannot scan the host: "+err.Error(), "fix the cause that the error names")
		return
	}
	leakFindings(r, report)
}

func leakFindings(r *Report, report *cleanup.Report) {
	counts := map[string]int{}
	for _, v := range report.Leaked() {
		counts[string(v.Kind)]++
		if v.Kind == cleanup.Ports {
			r.addError(v.Where, fmt.Sprintf("ports are published for allocation %s, which is dead: %s", v.Owner, v.Reason), "allocnet cleanup "+v.Owner.Allocation)
		}
		if v.Blocked != "" {
			r.addError(v.Where, "is leaked and cannot be removed: "+v.Blocked, "remove that rule, then: allocnet gc")
		}
	}
	if len(counts) > 0 {
		r.addError("leaks", "left by dead allocations: "+inventory(counts), "allocnet gc (allocnet gc --dry-run lists them)")
	}
	for _, p := range report.Problems {
		r.addError(p.Where, p.Reason, "fix it, or move it away")
	}
}

// inventory lists counts by kind, as in "2 lease, 1 ports".
func inventory(counts map[string]int) string {
	var parts []string
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%d %s", counts[kind], kind))
	}
	return strings.Join(parts, ", ")
}
