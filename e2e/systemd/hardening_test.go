// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package systemd

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/allocation"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// TestExposure: systemd itself calls the agent's unit hardened.
func TestExposure(t *testing.T) {
	m := newMachine(t)
	if out, code := m.exitCode("systemd-analyze", "security", "--no-pager", "--threshold=50", "allocnet.service"); code != 0 {
		t.Errorf("the exposure is above 5.0:\n%s", out)
	}
	for _, unit := range []string{"allocnet.service", "allocnet.socket"} {
		if before := m.property(unit, "Before"); !strings.Contains(" "+before+" ", " nomad.service ") {
			t.Errorf("%s is before %s, and not before nomad.service", unit, before)
		}
	}
}

// hardenedNetworks have more of the reference plugins than the example networks.
var hardenedNetworks = []string{
	`"plugins": [{"type": "bridge", "bridge": "more0", IPAM}, {"type": "tuning", "sysctl": {"net.ipv4.conf.IFNAME.arp_notify": "1"}, "mtu": 1400}, {"type": "bandwidth", "ingressRate": 1000000, "ingressBurst": 1000000}], "allocnet": {"routing": "source"}`,
	`"plugins": [{"type": "macvlan", "master": "uplink", IPAM}]`,
	`"plugins": [{"type": "ptp", IPAM}]`,
	`"plugins": [{"type": "tap", IPAM}]`,
	`"plugins": [{"type": "host-device", "device": "spare", IPAM}]`,
}

// TestHardenedAgent: the unit lets agent and plugins attach, publish ports, detach and
// collect; the host sees the namespaces.
func TestHardenedAgent(t *testing.T) {
	m := newMachine(t)
	m.must("ip", "link", "add", "uplink", "up", "type", "veth", "peer", "name", "spare")
	for _, name := range []string{"tuning", "bandwidth", "macvlan", "ptp", "tap", "host-device"} {
		m.copy(filepath.Join(sandbox.PluginDir(), name), "/opt/cni/bin/"+name)
	}
	networks := api.Selection{{Name: "storage"}}
	for i, members := range hardenedNetworks {
		name, ipam := fmt.Sprintf("more%d", i), fmt.Sprintf(`"ipam": {"type": "host-local", "subnet": "10.97.%d.0/24"}`, i)
		m.write("/opt/cni/config/50-"+name+".conflist", `{"cniVersion": "1.0.0", "name": "`+name+`", `+strings.ReplaceAll(members, "IPAM", ipam)+"}")
		networks = append(networks, allocation.Element{Name: name})
	}
	set := api.Setup{Primary: api.Selection{{Name: "web"}}, Networks: networks, Ports: []api.Port{{Label: "http", HostPort: 8080, To: 80, Protocol: "tcp"}}}
	before := "" // what the first round leaves is kept for the next allocation
	for _, end := range []string{"first", "detach", "collect"} {
		if end == "collect" { // the kernel removes a virtual device of the host with the namespace
			set.Networks = networks[:len(networks)-1]
		}
		a, err := m.client.Setup(ctx, "web-1", set)
		if err != nil {
			t.Fatal(err)
		}
		if len(a.Attachments) != len(set.Networks)+1 {
			t.Errorf("attached %+v", a.Attachments)
		}
		if out := m.must("ip", "netns", "exec", "web-1", "ip", "-brief", "addr"); !strings.Contains(out, "10.88.") || !strings.Contains(out, "10.89.") {
			t.Errorf("the host sees\n%s", out)
		}
		m.must("systemd-run", "--unit", "served", "-p", "NetworkNamespacePath=/run/netns/web-1", "/usr/local/bin/web", "serve", "hello")
		m.requireServed()
		m.must("systemctl", "stop", "served")
		if end == "collect" {
			m.must("ip", "netns", "delete", "web-1")
			_, err = m.client.GC(ctx)
		} else {
			err = m.client.Teardown(ctx, "web-1")
		}
		if err != nil {
			t.Errorf("%s: %v", end, err)
		}
		if before == "" {
			before = m.snapshot()
		}
		m.requireSame(before)
	}
}
