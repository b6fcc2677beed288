// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netns_test

import (
	"net"
	"slices"
	"testing"

	"github.com/allocnet/allocnet/internal/netns"
)

// TestOwnInterfaces: they are those of this process, in the order of their names.
func TestOwnInterfaces(t *testing.T) {
	links, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, l := range links {
		want = append(want, l.Name)
	}
	slices.Sort(want)
	own, err := netns.OwnInterfaces()
	for _, i := range own {
		got = append(got, i.Name)
	}
	if err != nil || !slices.Equal(got, want) || !slices.Contains(got, "lo") {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
}
