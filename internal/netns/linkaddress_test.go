// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netns_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/netns/netnstest"
	"github.com/allocnet/allocnet/internal/roottest"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// TestRootAddressesOf: those of one link and family, with their networks, peers and flags, as the listing of all links has them.
func TestRootAddressesOf(t *testing.T) {
	roottest.Require(t)
	netnstest.Run(t, func() error {
		for _, command := range []string{
			"link add a0 type bridge", "link add a1 type bridge", "addr add 10.3.0.1/24 dev a0", "addr add 10.3.0.2/16 dev a0 noprefixroute",
			"addr add 10.4.0.1 peer 10.4.0.9/24 dev a0", "addr add fd00:3::2/64 dev a0 nodad", "addr add fd00:4::2 peer fd00:4::9/64 dev a0", "addr add 10.3.0.3/24 dev a1",
		} {
			sandbox.Run(t, "sh", "-c", "ip "+command)
		}
		for _, name := range []string{"a0", "a1", "lo"} {
			link, err := netlink.LinkByName(name)
			if err != nil {
				return err
			}
			for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6, netlink.FAMILY_ALL} {
				texts := func(all []netlink.Addr) (texts []string) {
					for _, a := range all {
						texts = append(texts, fmt.Sprintf("%s peer %v on %d, scope %d, flags %x", a.IPNet, a.Peer, a.LinkIndex, a.Scope, a.Flags))
					}
					slices.Sort(texts)
					return texts
				}
				want, err := netlink.AddrList(link, family)
				if err != nil {
					return err
				}
				if got, err := netns.AddressesOf(link, family); err != nil || !slices.Equal(texts(got), texts(want)) {
					t.Errorf("%s, family %d: %q, %v, want %q", name, family, texts(got), err, texts(want))
				}
			}
		}
		return nil
	})
}
