// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netns_test

import (
	"net/netip"
	"testing"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/roottest"
)

// TestRootAddresses: those of all namespaces but the caller's, with the namespace.
func TestRootAddresses(t *testing.T) {
	roottest.Require(t)
	path := create(t, "addressed")
	ip(t, "link add own0 type veth peer name own1")
	ip(t, "addr add 10.3.0.1/24 dev own0")
	defer ip(t, "link delete own0")
	ip(t, "-n addressed link add a0 type veth peer name a1")
	ip(t, "-n addressed addr add 10.3.0.2/24 dev a0")
	ip(t, "-n addressed addr add fd00:3::2/64 dev a0 nodad")
	used, err := netns.Addresses()
	if err != nil {
		t.Fatal(err)
	}
	for address, want := range map[string]string{"10.3.0.1": "", "10.3.0.2": path, "fd00:3::2": path} {
		if got := used[netip.MustParseAddr(address)]; got != want {
			t.Errorf("%s is in %q, want %q", address, got, want)
		}
	}
}
