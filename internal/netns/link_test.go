// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netns_test

import (
	"testing"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/roottest"
)

// TestRootFindLink: the kind and the MAC have to be those of the link, in upper or lower case. With a MAC that only one
// link has, a name of CNI plugins is a hint.
func TestRootFindLink(t *testing.T) {
	roottest.Require(t)
	ip(t, "link add has0 address 02:00:00:00:00:ab type veth peer name has1")
	defer ip(t, "link delete has0")
	ip(t, "link add two0 address 02:00:00:00:00:ad type veth peer name two1 address 02:00:00:00:00:ad")
	defer ip(t, "link delete two0")
	for _, test := range []struct{ name, kind, mac, want string }{
		{"has0", "veth", "02:00:00:00:00:ab", "has0"},
		{"has0", "veth", "02:00:00:00:00:AB", "has0"},
		{"has0", "veth", "", "has0"},
		{"has0", "veth", "02:00:00:00:00:ac", ""},
		{"has0", "bridge", "", ""},
		{"has2", "veth", "", ""},
		{"veth0123abcd", "veth", "02:00:00:00:00:AB", "has0"},
		{"has2", "veth", "02:00:00:00:00:ab", ""},
		{"has1", "veth", "02:00:00:00:00:ab", ""},
		{"veth0123abcd", "bridge", "02:00:00:00:00:ab", ""},
		{"two0", "veth", "02:00:00:00:00:ad", "two0"},
		{"bwp0123456789ab", "veth", "02:00:00:00:00:ab", "has0"},
		{"veth0123abcd", "veth", "02:00:00:00:00:ad", ""},
	} {
		if got, err := netns.FindLink(test.name, test.kind, test.mac); err != nil || got != test.want {
			t.Errorf("%+v: %q, %v", test, got, err)
		}
	}
}

// TestSameMAC: the form of a MAC does not matter, and what is none is none.
func TestSameMAC(t *testing.T) {
	for _, same := range [][2]string{{"02:00:00:00:AB:CD", "02:00:00:00:ab:cd"}, {"02-00-00-00-ab-cd", "02:00:00:00:ab:cd"}, {"0200.0000.abcd", "02:00:00:00:ab:cd"}} {
		if !netns.SameMAC(same[0], same[1]) {
			t.Errorf("%q differs from %q", same[0], same[1])
		}
	}
	if netns.SameMAC("", "") {
		t.Error("none is taken for one")
	}
	for _, other := range []string{"02:00:00:00:ab:ce", "", "x"} {
		if netns.SameMAC("02:00:00:00:ab:cd", other) {
			t.Errorf("%q is taken for the same", other)
		}
	}
}
