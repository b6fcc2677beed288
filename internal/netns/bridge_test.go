// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netns_test

import (
	"os"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/roottest"
)

// TestRootKeepBridge: a port with a smaller MTU and a lower MAC changes neither of a bridge with a port of the operator's, and what a
// plugin sets of it is restored unless another value was set since.
func TestRootKeepBridge(t *testing.T) {
	roottest.Require(t)
	ip(t, "link add own0 mtu 1600 type bridge")
	defer ip(t, "link delete own0")
	ip(t, "link add wire0 mtu 1600 address f6:00:00:00:00:01 type veth peer name wire1")
	defer ip(t, "link delete wire0")
	ip(t, "link set wire0 master own0")
	ip(t, "link set own0 up")
	const acceptRA = "/proc/sys/net/ipv6/conf/own0/accept_ra"
	set := func(value string) {
		if err := os.WriteFile(acceptRA, []byte(value), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	set("2")
	before, err := netlink.LinkByName("own0")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if had, err := netns.KeepBridge("own0", 1400); had != "2" || err != nil {
			t.Fatalf("accept_ra %q, %v", had, err)
		}
	}
	ip(t, "link add veth00000000 mtu 1400 address 02:00:00:00:00:01 type veth peer name low1")
	defer ip(t, "link delete veth00000000")
	ip(t, "link set veth00000000 master own0")
	after, err := netlink.LinkByName("own0")
	if err != nil || after.Attrs().MTU != 1600 || after.Attrs().HardwareAddr.String() != before.Attrs().HardwareAddr.String() {
		t.Errorf("%+v has become %+v, %v", before.Attrs(), after.Attrs(), err)
	}
	for now, want := range map[string]string{"0": "2", "1": "1"} {
		set(now)
		if err := netns.RestoreBridge("own0", "2"); err != nil {
			t.Error(err)
		}
		if got, err := os.ReadFile(acceptRA); strings.TrimSpace(string(got)) != want {
			t.Errorf("from %s: %q, %v: want %s", now, got, err, want)
		}
	}
	for _, other := range []string{"missing0", "wire0"} {
		if had, err := netns.KeepBridge(other, 0); had != "" || err != nil {
			t.Errorf("%s: %q, %v", other, had, err)
		}
	}
	if err := netns.RestoreBridge("missing0", "2"); err != nil {
		t.Error(err)
	}
}
