// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netns

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// TestAdvertisedAddresses: those that the kernel makes of the prefixes of routers, while they can be used. There are no more than it makes.
func TestAdvertisedAddresses(t *testing.T) {
	address := func(text string, index, flags, scope int) netlink.Addr {
		ip, network, err := net.ParseCIDR(text)
		if err != nil {
			t.Fatal(err)
		}
		return netlink.Addr{IPNet: &net.IPNet{IP: ip, Mask: network.Mask}, LinkIndex: index, Flags: flags, Scope: scope}
	}
	const all = unix.RT_SCOPE_UNIVERSE
	present := []netlink.Addr{
		address("fd00:2::5/64", 2, unix.IFA_F_DEPRECATED, all), address("fd00:1::5/64", 2, unix.IFA_F_MANAGETEMPADDR, all),
		address("fd00:1::6/64", 3, 0, all), address("fd00:1::7/64", 2, unix.IFA_F_PERMANENT, all), address("fd00:1::8/64", 2, unix.IFA_F_TENTATIVE, all),
		address("fd00:1::9/64", 2, unix.IFA_F_DADFAILED, all), address("fd00:1::a/64", 2, unix.IFA_F_TEMPORARY, all), address("fd00:1::b/128", 2, 0, all),
		address("fe80::5/64", 2, 0, unix.RT_SCOPE_LINK), address("10.0.0.5/24", 2, 0, all),
	}
	if got := fmt.Sprint(advertisedAddresses(present, 2)); got != "[fd00:1::5/64 fd00:2::5/64]" {
		t.Errorf("got %s", got)
	}
	for i := range 1000 { // by the root of a task
		present = append(present, address(fmt.Sprintf("fd00:3::%x/64", i+1), 2, 0, all))
	}
	if got := advertisedAddresses(present, 2); len(got) != maxAdvertised || !strings.HasPrefix(got[0].String(), "fd00:1::5") {
		t.Errorf("got %d: %s", len(got), got)
	}
}
