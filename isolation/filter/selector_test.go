// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package filter

import (
	"fmt"
	"slices"
	"testing"

	"github.com/allocnet/allocnet/isolation"
)

// TestMatches: a star is any text, also none, and what is unknown is of no pattern.
func TestMatches(t *testing.T) {
	for pattern, texts := range map[string]map[string]bool{
		"":      {"": true, "web": true},
		"web":   {"web": true, "": false, "we": false, "webs": false, "aweb": false},
		"*":     {"web": true, "": false},
		"w*":    {"web": true, "w": true, "aw": false},
		"*b":    {"web": true, "b": true, "ba": false, "bab": true},
		"a*b*c": {"abc": true, "axbxc": true, "ab": false, "acb": false, "abcb": false, "abcbc": true},
		"a*a":   {"a": false, "aa": true, "aba": true},
		"**":    {"web": true},
	} {
		for text, want := range texts {
			if got := matches(pattern, text); got != want {
				t.Errorf("%q of %q: %t, want %t", pattern, text, got, want)
			}
		}
	}
}

// TestIndex: with an index the same selectors are found as without.
func TestIndex(t *testing.T) {
	var selectors []*isolation.Selector
	for i := range 20 {
		selectors = append(selectors,
			&isolation.Selector{Job: fmt.Sprintf("job%d", i%7)}, &isolation.Selector{Job: fmt.Sprintf("job%d*", i%3)}, &isolation.Selector{Namespace: "n*", Job: "job1"},
			&isolation.Selector{}, &isolation.Selector{Group: "g"}, &isolation.Selector{Network: fmt.Sprintf("net%d", i%5)})
	}
	plain, built := &index{selectors: selectors, isWanted: hasPatterns}, &index{selectors: selectors, isWanted: hasPatterns}
	built.build()
	found := 0
	for i := range 10 {
		m := &isolation.Member{Job: fmt.Sprintf("job%d", i), Namespace: "n", Network: fmt.Sprintf("net%d", i%5)}
		want, got := plain.of(m), built.of(m)
		if !slices.Equal(got, want) {
			t.Errorf("of %v: %v, want %v", m, got, want)
		}
		found += len(want)
	}
	if found < 50 {
		t.Errorf("only %d selectors are found", found)
	}
}
