// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package repair

import (
	"strings"
	"testing"

	"github.com/allocnet/allocnet/hook"
)

// TestChosenPeer: a task that may change its namespace puts another interface in the place of
// its own, whose peer has the index of a link of the host. That link is not touched.
func TestChosenPeer(t *testing.T) {
	h := newHost(t, hook.ExecutorAuto, "iptables")
	h.attach("one", 8080, further...)
	t.Cleanup(func() { h.detach("one") })
	before := h.picture()
	index, _, _ := strings.Cut(h.run("ip -o link show outside0"), ":")
	shell(t, "ip netns add accomplice; for i in eth0 tuned0; do ip -n one link set $i name real-$i;"+
		" ip -n one link add $i type veth peer name $i netns accomplice; done; ip -n accomplice link set eth0 name peer; ip -n accomplice link set tuned0 down;"+
		" ip -n one link del eth0; ip -n accomplice link add eth0 index "+index+" type veth peer name eth0 netns one")
	t.Cleanup(func() { h.run("ip netns del accomplice") })
	if chosen := strings.TrimSpace(h.run("ip netns exec one cat /sys/class/net/eth0/iflink")); chosen != index {
		t.Fatalf("the peer is %s, want %s", chosen, index)
	}
	if found := missing(h.repair(hook.RepairRules)); !strings.Contains(found, "MAC of eth0") {
		t.Errorf("the repair found:\n%s", found)
	}
	after := h.picture()
	after = strings.ReplaceAll(after, "/run/netns/accomplice \"\"\n", "")
	if diff := difference(before, after); diff != "" {
		t.Errorf("the repair changed the host (-before +after):\n%s", diff)
	}
}

// TestSmallerPort: a bridge follows its port with the smallest MTU. That is no damage, and with a
// larger one the bridge would send packets that the port drops.
func TestSmallerPort(t *testing.T) {
	h := newHost(t, hook.ExecutorAuto, "iptables")
	h.attach("one", 8080, further...)
	t.Cleanup(func() { h.detach("one") })
	h.run("ip link add port0 mtu 1300 type veth peer name port1")
	t.Cleanup(func() { h.run("ip link del port0") })
	h.run("ip link set port0 master tuned0")
	if link := h.run("ip -br link show tuned0") + h.run("ip link show tuned0"); !strings.Contains(link, "mtu 1300") {
		t.Fatalf("the bridge does not follow its port: %s", link)
	}
	if found := missing(h.repair(hook.RepairReport)); found != "" {
		t.Errorf("the repair found:\n%s", found)
	}
}
