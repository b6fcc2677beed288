// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package exhaustive

import (
	"flag"
	"fmt"
	"slices"
	"testing"
)

// setShort sets -short for a test.
func setShort(t *testing.T, value string) {
	t.Helper()
	short := flag.Lookup("test.short").Value
	before := short.String()
	t.Cleanup(func() { _ = short.Set(before) })
	if err := short.Set(value); err != nil {
		t.Fatal(err)
	}
}

// ran returns the cases that run.
func ran(t *testing.T, short string) (cases []int) {
	t.Helper()
	setShort(t, short)
	for i := range all {
		Run(t, fmt.Sprint("case ", i), func(*testing.T) { cases = append(cases, i) })
	}
	return cases
}

const all = 1600

// TestAllCases: without -short each case runs.
func TestAllCases(t *testing.T) {
	if n := len(ran(t, "false")); n != all || Count(all) != all {
		t.Errorf("%d cases, and %d random ones, want %d", n, Count(all), all)
	}
}

// TestShort: with -short a share of the cases runs.
func TestShort(t *testing.T) {
	if n := len(ran(t, "true")); n < all/share/2 || n > all/share*2 || Count(all) != all/share {
		t.Errorf("%d cases, and %d random ones, want about %d", n, Count(all), all/share)
	}
}

// numbered is a case that Of chooses.
type numbered int

func (n numbered) String() string { return fmt.Sprint("case ", int(n)) }

// TestOf: those that a test runs together are the ones that Run would run.
func TestOf(t *testing.T) {
	var cases []numbered
	for i := range all {
		cases = append(cases, numbered(i))
	}
	for _, short := range []string{"false", "true"} {
		var of []int
		want := ran(t, short)
		for _, c := range Of(t, cases) {
			of = append(of, int(c))
		}
		if !slices.Equal(of, want) {
			t.Errorf("-short=%s: %d cases, want %d", short, len(of), len(want))
		}
	}
}
