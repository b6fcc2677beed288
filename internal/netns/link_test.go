// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netns_test

import (
	"testing"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/roottest"
)

// TestRootHasLink: the kind and the MAC have to be those of the link, in upper or lower case.
func TestRootHasLink(t *testing.T) {
	roottest.Require(t)
	ip(t, "link add has0 address 02:00:00:00:00:ab type veth peer name has1")
	defer ip(t, "link delete has0")
	for _, test := range []struct {
		name, kind, mac string
		want            bool
	}{
		{"has0", "veth", "02:00:00:00:00:ab", true},
		{"has0", "veth", "02:00:00:00:00:AB", true},
		{"has0", "veth", "", true},
		{"has0", "veth", "02:00:00:00:00:ac", false},
		{"has0", "bridge", "", false},
		{"has2", "veth", "", false},
	} {
		if got := netns.HasLink(test.name, test.kind, test.mac); got != test.want {
			t.Errorf("%+v: %t", test, got)
		}
	}
}
