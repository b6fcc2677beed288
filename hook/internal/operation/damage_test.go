// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package operation

import (
	"testing"

	"github.com/allocnet/allocnet/state"
)

// TestAllocationOfTheMarker: a marker tells of a lost allocation if it is that of the
// allocation, with a mode that can be recorded.
func TestAllocationOfTheMarker(t *testing.T) {
	for name, test := range map[string]struct {
		marked *state.Allocation
		want   string
	}{
		"valid":              {&state.Allocation{ID: "a", Mode: state.ModeExtend, Netns: "/n"}, "/n"},
		"without":            {nil, ""},
		"a later mode":       {&state.Allocation{ID: "a", Mode: "later", Netns: "/n"}, ""},
		"another allocation": {&state.Allocation{ID: "b", Mode: state.ModeExtend, Netns: "/n"}, ""},
	} {
		r := state.Record{Allocation: state.Allocation{ID: "a", Mode: state.ModeUnknown}}
		loadAllocationFromCache(&r, test.marked)
		if a := r.Allocation; a.Netns != test.want || a.ID != "a" || !a.Mode.Valid() {
			t.Errorf("%s: %+v, want namespace %q", name, a, test.want)
		}
	}
}
