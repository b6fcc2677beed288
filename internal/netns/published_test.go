// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netns

import (
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/roottest"
)

// TestRootPublish: an address is on one link, is told from those of others, and is not what the host sends with.
func TestRootPublish(t *testing.T) {
	roottest.Require(t)
	run := func(command string) string {
		t.Helper()
		out, err := exec.Command("sh", "-ec", command).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", command, err, out)
		}
		return string(out)
	}
	run("ip link add pub0 type veth peer name pub1; ip link set pub0 up; ip link set pub1 up; ip address add 192.0.2.2/24 dev pub0; ip address add 2001:db8:2::2/64 dev pub0 nodad")
	defer run("ip link delete pub0")
	for _, text := range []string{"192.0.2.50", "2001:db8:2::50"} {
		address := netip.MustParseAddr(text)
		shown := func() string { return run("ip -o address show to " + text) }
		for _, link := range []string{"pub1", "pub0", "pub0"} {
			if err := Publish(link, address); err != nil {
				t.Fatal(err)
			}
			if got := shown(); strings.Count(got, "\n") != 1 || !strings.Contains(got, link) || strings.Contains(got, "tentative") {
				t.Errorf("published on %s: %s", link, got)
			}
		}
		if all, err := Published(); err != nil || len(all) != 1 || all[address] != "pub0" {
			t.Errorf("published are %v, %v", all, err)
		}
		if used, err := Addresses(); err != nil || used[address] != "pub0" {
			t.Errorf("%s is in use on %q, %v", address, used[address], err)
		}
		if own, err := OwnInterfaces(); err != nil || !slices.Equal(own[Index(own, "pub0")].Published, []netip.Addr{address}) || len(own[Index(own, "pub1")].Published) > 0 {
			t.Errorf("interfaces: %+v, %v", own, err)
		}
		if got := run("ip route get 192.0.2.9; ip route get 2001:db8:2::51"); strings.Contains(got, "src "+text+" ") {
			t.Errorf("the host sends with it: %s", got)
		}
		if err := Unpublish(address); err != nil || shown() != "" {
			t.Errorf("removed: %v: %s", err, shown())
		}
		if err := Unpublish(address); err != nil {
			t.Errorf("removed again: %v", err)
		}
		run("ip address add " + netip.PrefixFrom(address, address.BitLen()).String() + " dev pub1")
		if err := Publish("pub0", address); err == nil || !strings.Contains(err.Error(), "pub1 has it, to which something else has given it") {
			t.Errorf("of something else: %v", err)
		}
		if err := Unpublish(address); err != nil || !strings.Contains(shown(), "pub1") {
			t.Errorf("of something else: removed: %v: %s", err, shown())
		}
	}
	if err := Publish("pub9", netip.MustParseAddr("192.0.2.50")); err == nil || !strings.Contains(err.Error(), "pub9") {
		t.Errorf("without the link: %v", err)
	}
}
