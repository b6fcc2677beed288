// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package doctor

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReportOrder(t *testing.T) {
	r := &Report{}
	r.addWarning("b", "p", "f")
	r.addWarning("a", "p", "f")
	if !r.Healthy() {
		t.Error("warnings alone are not healthy")
	}
	r.addError("z", "p", "f")
	r.addError("c", "first", "f")
	r.addError("c", "second", "f")
	r.sort()
	requireFindings(t, r, "error c: first => f", "error c: second => f", "error z: p => f", "warning a: p => f", "warning b: p => f")
	if r.Healthy() {
		t.Error("a report with errors is healthy")
	}
}

// requireFindings compares the findings of a report with lines of the form
// "severity subject: problem => fix".
func requireFindings(t *testing.T, r *Report, want ...string) {
	t.Helper()
	var got []string
	for _, f := range r.Findings {
		got = append(got, string(f.Severity)+" "+f.Subject+": "+f.Problem+" => "+f.Fix)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
