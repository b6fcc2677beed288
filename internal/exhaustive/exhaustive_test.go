// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package exhaustive

import (
	"flag"
	"fmt"
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
