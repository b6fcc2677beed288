// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package systemd

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/internal/sandbox/cluster"
)

// filtering configures the agent.
func (m *machine) filtering(value string) {
	m.Helper()
	m.write("/etc/allocnet.d/agent.hcl", `ipam {
  store = "file"
}
nomad {
  node_id = "0b2e7b1c-94c2-4c2a-8a0e-5a4e1d0c9f01"
}
cluster {
  address   = "10.0.0.1"
  filtering = "`+value+`"
}
`)
}

// connects is whether one allocation reaches the other.
func (m *machine) connects() bool {
	m.Helper()
	address := strings.Fields(m.must("ip", "netns", "exec", "b", "ip", "-4", "-o", "address", "show", "scope", "global"))[3]
	address, _, _ = strings.Cut(address, "/")
	_, code := m.exitCode("ip", "netns", "exec", "a", "timeout", "2", "bash", "-c", ": </dev/tcp/"+address+"/80")
	return code == 0
}

// isFiltered is whether the agent says that firewalld drops packets.
func (m *machine) isFiltered() bool {
	m.Helper()
	out, _ := m.exitCode("allocnet", "cluster", "status")
	return strings.Contains(out, "problem (filtered): firewalld: has ")
}

// sources are those of the zone trusted.
func (m *machine) sources() string {
	m.Helper()
	return strings.TrimSpace(m.must("firewall-cmd", "--zone=trusted", "--list-sources"))
}

// TestLongFirewalld: what firewalld rejects is reported, with a command that works, and with filtering =
// "accept" it is accepted, also after a reload. Without, firewalld is as it was.
func TestLongFirewalld(t *testing.T) {
	m := bootWithout(t, networkManager)
	m.must("sh", "-ec", "ip link add uplink type bridge; ip link set uplink up; ip address add 10.0.0.1/24 dev uplink; ip route add default via 10.0.0.2")
	m.copy(filepath.Join(sandbox.PluginDir(), "ptp"), "/opt/cni/bin/ptp")
	m.copy(packages+"/bin/allocnet-ipam", "/opt/cni/bin/allocnet-ipam")
	m.write("/opt/cni/config/30-backend.conflist", `{"cniVersion": "1.0.0", "name": "backend", "plugins": [{"type": "ptp", "ipam":
		{"type": "allocnet-ipam", "pool": "backend", "mode": "routed", "ranges": [{"subnet": "10.110.0.0/16"}, {"subnet": "fd00:110::/64"}]}}]}`)
	m.await("firewalld runs", func() bool { _, code := m.exitCode("firewall-cmd", "--state"); return code == 0 })
	before := m.must("firewall-cmd", "--list-all-zones")
	m.filtering("report")
	m.must("systemctl", "restart", "allocnet.service")
	for _, name := range []string{"a", "b"} {
		m.must("allocnet", "attach", name, "--primary", "backend")
	}
	m.must("systemd-run", "--unit", "served", "-p", "NetworkNamespacePath=/run/netns/b", "/usr/local/bin/web", "serve", "hello")
	m.await("firewalld is reported", m.isFiltered)
	if m.connects() {
		t.Error("firewalld lets packets through that are reported")
	}
	m.filtering("accept")
	m.must("systemctl", "reload", "allocnet.service")
	m.await("packets pass", m.connects)
	m.await("nothing is reported", func() bool { return !m.isFiltered() })
	m.must("firewall-cmd", "--reload")
	m.await("packets pass after a reload", m.connects)
	m.filtering("report")
	m.must("systemctl", "reload", "allocnet.service")
	m.await("there are no sources", func() bool { return m.sources() == "" })
	if after := m.must("firewall-cmd", "--list-all-zones"); after != before {
		t.Errorf("the zones are\n%s\nand were\n%s", after, before)
	}
	text, err := cluster.Example("tested: firewalld", "sh")
	if err != nil {
		t.Fatal(err)
	}
	m.must("sh", "-euxc", text)
	if !m.connects() {
		t.Error("no packet passes after the commands of docs/cluster.md")
	}
	m.filtering("accept")
	m.must("systemctl", "reload", "allocnet.service")
	m.await("nothing is reported with the commands", func() bool { return !m.isFiltered() })
	m.must("systemctl", "stop", "allocnet.socket", "allocnet.service", "served.service")
	m.must("allocnet", "detach", "a")
	m.must("allocnet", "detach", "b")
	m.exitCode("allocnet", "cluster", "leave", "--yes")
	if sources := m.sources(); sources != "10.110.0.0/16 fd00:110::/64" {
		t.Errorf("after leave the operator's sources are %q", sources)
	}
}
