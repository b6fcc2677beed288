// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package systemd

import (
	"strings"
	"testing"
)

// TestExampleWithFirewalld: the example network works beside firewalld, without CNI plugins.
func TestExampleWithFirewalld(t *testing.T) {
	m := bootWithout(t, networkManager)
	m.must("rm", "-r", "/opt/cni/bin/bridge", "/opt/cni/bin/firewall", "/opt/cni/bin/portmap", "/opt/cni/bin/host-local")
	m.must("sh", "-ec", `ip netns add peer; ip link add uplink type veth peer name eth0 netns peer; ip link set uplink up
ip address add 192.0.2.1/24 dev uplink; ip route add default via 192.0.2.2
ip -n peer address add 192.0.2.2/24 dev eth0; ip -n peer link set eth0 up; ip -n peer link set lo up`)
	m.await("firewalld runs", func() bool { _, code := m.exitCode("firewall-cmd", "--state"); return code == 0 })
	m.must("allocnet", "attach", "a", "--primary", "web", "--publish", "8080:80/tcp")
	for name, namespace := range map[string]string{"served": "a", "outside": "peer"} {
		m.must("systemd-run", "--unit", name, "-p", "NetworkNamespacePath=/run/netns/"+namespace, "/usr/local/bin/web", "serve", "hello")
	}
	connects := func(namespace, to string) bool {
		_, code := m.exitCode("ip", "netns", "exec", namespace, "timeout", "5", "bash", "-c", ": </dev/tcp/"+strings.Replace(to, ":", "/", 1))
		return code == 0
	}
	executor := m.must("allocnet", "networks", "web", "--json")
	if !strings.Contains(executor, `"executor": "in-process"`) {
		t.Errorf("web is not executed without plugins: %s", executor)
	}
	for _, when := range []string{"after ADD", "after a reload of firewalld"} {
		m.await("the peer reaches the published port "+when, func() bool { return connects("peer", "192.0.2.1:8080") })
		m.await("the allocation reaches the peer "+when, func() bool { return connects("a", "192.0.2.2:80") })
		if out, code := m.exitCode("allocnet", "doctor"); code != 0 || strings.Contains(out, "firewalld") {
			t.Errorf("doctor %s: %s", when, out)
		}
		m.must("allocnet", "check", "a")
		m.must("firewall-cmd", "--reload")
	}
	m.must("allocnet", "detach", "a")
	if sources := m.sources(); sources != "" {
		t.Errorf("after DEL the zone has the sources %s", sources)
	}
}
