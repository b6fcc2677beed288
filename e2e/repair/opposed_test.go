// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package repair

import (
	"strings"
	"testing"

	"github.com/allocnet/allocnet/hook"
)

// opposed are changes that another program has made on purpose, with what is reported.
var opposed = []damage{
	{"a tunnel has the default routes", `ip -n $NS link add wg0 type bridge; ip -n $NS link set wg0 up
		ip -n $NS address add 10.200.0.2/24 dev wg0; ip -n $NS route replace default via 10.200.0.1 dev wg0
		ip -n $NS address add fd00:200::2/64 dev wg0 nodad; ip -n $NS -6 route del default; ip -n $NS -6 route add default via fd00:200::1 dev wg0 metric 1024`,
		[]string{"and there is another one, via 10.200.0.1 dev wg0: remove one of them"}},
	{"a tunnel has a default route with a metric", `ip -n $NS link add wg0 type bridge; ip -n $NS link set wg0 up
		ip -n $NS route del default; ip -n $NS route add default dev wg0 metric 50`,
		[]string{"and there is another one, dev wg0: remove one of them"}},
	{"IPv6 is switched off", "ip netns exec $NS sysctl -qw net.ipv6.conf.eth0.disable_ipv6=1", nil},
	{"an address on another link", `ip -n $NS link add br0 type bridge; ip -n $NS link set br0 up; ip -n $NS address flush dev eth0 scope global
		ip -n $NS address add $ADDRESS/16 dev br0`, []string{"a task has moved it, so nothing inside is repaired"}},
	{"a machine behind a bridge", `ip -n $NS address flush dev eth0 scope global; ip -n $NS link set eth0 address 02:00:00:00:00:99
		ip -n $NS link add br0 type bridge; ip -n $NS link set br0 up; ip -n $NS link set eth0 master br0`,
		[]string{"eth0 is a port of br0, and something of it is missing: a task has moved it"}},
	{"a port of another bridge", "ip link add quarantine type bridge; ip link set quarantine up; ip link set $PORT master quarantine",
		[]string{"is a port of quarantine"}},
}

// TestLongOpposed: what another program has put into the place of what is missing is reported, and stays.
func TestLongOpposed(t *testing.T) {
	shared := newHost(t, hook.ExecutorAuto, "iptables")
	for _, d := range opposed {
		t.Run(d.name, func(t *testing.T) {
			h := &host{TB: t, engine: shared.engine, dir: shared.dir}
			a := h.attach("one", 8080, further...)
			t.Cleanup(func() {
				h.detach("one")
				shell(t, "ip link del quarantine 2>/dev/null || true")
			})
			shell(t, h.variables(a)+d.command)
			before := h.picture("one")
			for range 2 {
				reported := missing(h.repair(hook.RepairRules))
				for _, word := range d.words {
					if !strings.Contains(reported, word) {
						t.Errorf("the report does not have %q:\n%s", word, reported)
					}
				}
			}
			h.requireSame(before, "one")
		})
	}
}
