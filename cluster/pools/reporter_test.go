// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package pools

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestReporter: what two looks in a row find has begun, and what two do not find has ended. What one look finds, or
// misses, is not told.
func TestReporter(t *testing.T) {
	for looks, want := range map[string][]string{
		"":       nil,
		"x":      nil,
		"x.x.":   nil,
		"xx":     {"begun"},
		"xxx":    {"begun"},
		"xx.":    {"begun"},
		"xx.x.x": {"begun"},
		"xx..":   {"begun", "ended"},
		"xx..x":  {"begun", "ended"},
		"xx..xx": {"begun", "ended", "begun"},
	} {
		var told []string
		r := newReporter(func(p Problem, ended bool) {
			told = append(told, map[bool]string{false: "begun", true: "ended"}[ended])
			if p.Kind != Twin {
				t.Errorf("%q: told of %s", looks, p.Kind)
			}
		})
		for _, look := range looks {
			r.look(map[rune][]Problem{'x': {{Kind: Twin}}}[look])
		}
		if diff := cmp.Diff(want, told); diff != "" {
			t.Errorf("%q (-want +got):\n%s", looks, diff)
		}
	}
}
