// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package links

import (
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/netns/netnstest"
	"github.com/allocnet/allocnet/internal/roottest"
	"github.com/allocnet/allocnet/internal/sysctl"
)

// TestRootIPv6IsOff: the kernel says "permission denied", the error what would be right.
func TestRootIPv6IsOff(t *testing.T) {
	roottest.Require(t)
	netnstest.Run(t, func() error {
		link := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br0"}}
		var sysctls sysctl.Tree
		if err := errors.Join(netlink.LinkAdd(link), sysctls.Set("net/ipv6/conf/br0/disable_ipv6", "1")); err != nil {
			return err
		}
		v4, v6 := &net.IPNet{IP: net.IPv4(192, 0, 2, 1), Mask: net.CIDRMask(24, 32)}, &net.IPNet{IP: net.ParseIP("2001:db8::1"), Mask: net.CIDRMask(64, 128)}
		if err := AddHostAddress(link, v4); err != nil {
			t.Errorf("IPv4: %v", err)
		}
		if err := AddHostAddress(link, v6); !errors.Is(err, unix.EACCES) || !strings.Contains(err.Error(), "net.ipv6.conf.br0.disable_ipv6=0") {
			t.Errorf("IPv6: %v", err)
		}
		if err := errors.Join(sysctls.Set("net/ipv6/conf/br0/disable_ipv6", "0"), AddHostAddress(link, v6)); err != nil {
			return err
		}
		if err := AddHostAddress(link, v6); !errors.Is(err, unix.EEXIST) || strings.Contains(err.Error(), "switched off") {
			t.Errorf("an address that is there: %v", err)
		}
		return nil
	})
}
