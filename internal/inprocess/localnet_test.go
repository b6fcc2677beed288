// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"net"
	"os/exec"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/roottest"
)

// TestRootGuardLoopback: the guard is made once, made again where it is missing, and is what nft prints.
func TestRootGuardLoopback(t *testing.T) {
	roottest.Require(t)
	for _, damage := range []string{"list ruleset", "flush chain ip allocnet_loopback prerouting", "flush ruleset"} {
		if out, err := exec.Command("nft", strings.Fields(damage)...).CombinedOutput(); err != nil {
			t.Fatalf("nft %s: %v: %s", damage, err, out)
		}
		for range 2 {
			if err := GuardLoopback(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		out, err := exec.Command("nft", "list", "chain", "ip", "allocnet_loopback", "prerouting").Output()
		if rule := `iifname != "lo" ip daddr 127.0.0.0/8 drop`; err != nil || strings.Count(string(out), rule) != 1 || !strings.Contains(string(out), "type filter hook prerouting priority raw") {
			t.Errorf("after nft %s: %v\n%s", damage, err, out)
		}
	}
}

// TestRoutesLocalnet: only connections by the host's IPv4, with addresses translated, need it.
func TestRoutesLocalnet(t *testing.T) {
	no, yes := false, true
	v4, v6 := net.IPNet{IP: net.IPv4(10, 0, 0, 2)}, net.IPNet{IP: net.ParseIP("fd00::2")}
	for _, test := range []struct {
		snat      *bool
		addresses []net.IPNet
		want      bool
	}{
		{nil, []net.IPNet{v4}, true}, {&yes, []net.IPNet{v6, v4}, true}, {&no, []net.IPNet{v4}, false}, {nil, []net.IPNet{v6}, false}, {nil, nil, false},
	} {
		conf := &portmapConfig{SNAT: test.snat, addresses: test.addresses}
		if got := conf.routesLocalnet(); got != test.want && supportsNFTables() {
			t.Errorf("%+v: %t", test, got)
		}
	}
}
