// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"testing"

	"github.com/allocnet/allocnet/cleanup"
)

// TestSummary does not count what was removed before leaks were examined.
func TestSummary(t *testing.T) {
	leak, live := cleanup.Decision{Leaked: true}, cleanup.Decision{}
	for _, test := range []struct {
		dryRun bool
		report cleanup.Report
		want   string
	}{
		{true, cleanup.Report{Decisions: []cleanup.Decision{leak, leak, live}}, "2 leaked, none removed; objects of live or unknown owners: 1"},
		{false, cleanup.Report{Decisions: []cleanup.Decision{leak, leak, live}, Removed: 1}, "2 leaked, 1 removed by force; objects of live or unknown owners: 1"},
		{false, cleanup.Report{}, "no leaks were left to remove by force; objects of live or unknown owners: 0"},
	} {
		if got := summary(test.dryRun, &test.report); got != test.want {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
}
