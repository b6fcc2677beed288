// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package systemd

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/allocnet/allocnet/internal/sandbox/stream"
)

// natted is a network whose addresses are translated by a backend of rules.
const natted = `{"cniVersion": "1.0.0", "name": %[1]q, "plugins": [
	{"type": "bridge", "bridge": "%[1]s0", "isGateway": true, "ipMasq": true, "ipMasqBackend": %[1]q,
	 "ipam": {"type": "host-local", "subnet": "10.%[2]d.0.0/16", "routes": [{"dst": "0.0.0.0/0"}]}},
	{"type": "firewall", "backend": "iptables"},
	{"type": "portmap", "backend": %[1]q, "snat": true, "capabilities": {"portMappings": true}}]}`

// traffic attaches an allocation to each of networks, which are those of natted, and starts traffic
// from outside and to it.
func (m *machine) traffic(networks ...string) (ways []stream.Way) {
	m.Helper()
	m.must("sh", "-ec", `ip netns add outside; ip link add uplink type veth peer name eth0 netns outside
		ip address add 192.0.2.1/24 dev uplink; ip link set uplink up
		ip -n outside address add 192.0.2.2/24 dev eth0; ip -n outside link set eth0 up`)
	stream.Listen(m, m.namespace("outside"), ":443")
	for i, name := range networks {
		port := 8080 + i
		m.write("/opt/cni/config/30-"+name+".conflist", fmt.Sprintf(natted, name, 96+i))
		m.must("allocnet", "attach", name, "--primary", name, "--publish", fmt.Sprintf("%d:80", port))
		stream.Listen(m, m.namespace(name), ":80")
		ways = append(ways, stream.Way{Name: name + ", to the published port", From: m.namespace("outside"), To: fmt.Sprintf("192.0.2.1:%d", port)},
			stream.Way{Name: name + ", to the outside", From: m.namespace(name), To: "192.0.2.2:443"})
	}
	return ways
}

// namespace is the path of a named network namespace of the machine.
func (m *machine) namespace(name string) string {
	return fmt.Sprintf("/proc/%d/root/run/netns/%s", m.leader, name)
}

// TestLongReloadedFirewalld: firewalld removes the rules of iptables when it is reloaded or started again,
// whatever its own backend. The agent restores them, and established connections are kept.
func TestLongReloadedFirewalld(t *testing.T) {
	m := bootWithout(t, networkManager)
	m.awaitFirewalld()
	m.must("firewall-cmd", "--permanent", "--zone=trusted", "--add-interface=iptables0", "--add-interface=nftables0")
	ways := m.traffic("iptables", "nftables")
	for _, backend := range []string{"nftables", "iptables"} {
		m.must("sed", "-i", "s/^FirewallBackend=.*/FirewallBackend="+backend+"/", "/etc/firewalld/firewalld.conf")
		m.must("systemctl", "restart", "firewalld.service")
		m.awaitFirewalld()
		for _, command := range []string{"firewall-cmd --reload", "firewall-cmd --complete-reload", "systemctl restart firewalld.service"} {
			t.Run(backend+", "+command, func(t *testing.T) {
				m := &machine{T: t, leader: m.leader, client: m.client}
				m.testCommand(ways, command, m.awaitFirewalld)
			})
		}
	}
	if log := m.must("journalctl", "--no-pager", "-u", "allocnet.service"); strings.Contains(log, "noticed at an interval only") {
		t.Errorf("the agent does not hear of damage:\n%s", log)
	}
}

func (m *machine) awaitFirewalld() {
	m.Helper()
	m.await("firewalld runs", func() bool { _, code := m.exitCode("firewall-cmd", "--state"); return code == 0 })
}

// testCommand runs a command that damages allocations until it has settled, while there is traffic.
func (m *machine) testCommand(ways []stream.Way, command string, settle func()) {
	m.must("systemctl", "reset-failed")
	m.must("systemctl", "restart", "allocnet.service") // another one would pause between many repairs
	m.await("the agent is ready", func() bool { return m.client.Ready(ctx) == nil })
	m.awaitRepaired()
	var streams []*stream.Stream
	var talks []*stream.Talk
	for _, w := range ways {
		streams = append(streams, stream.Start(m, w, stream.Step))
	}
	stream.AwaitFlow(m, streams)
	for _, w := range ways {
		talks = append(talks, stream.StartTalk(m, w))
	}
	before := m.repairs()
	began := time.Now()
	m.must("sh", "-ec", command)
	settle()
	m.awaitRepaired()
	stream.AwaitFlow(m, streams)
	m.Logf("new connections after %s; silence of established ones: %s", stream.LongestGap(streams, began).Round(time.Millisecond), stream.Silences(talks))
	for _, talk := range talks {
		stream.RequireKept(m, talk)
	}
	if m.repairs() == before {
		m.Error("the command has removed nothing that the agent has repaired")
	}
}

// TestLongIfupdown: a bridge that ifupdown removes and makes again has its ports again, with the file of
// docs/repair.md also if the agent is faster than ifup.
func TestLongIfupdown(t *testing.T) {
	text, err := os.ReadFile("../../docs/repair.md")
	if err != nil {
		t.Fatal(err)
	}
	file := regexp.MustCompile("(?s)`(/etc/network/interfaces)`:\n```\\w*\n(.*?)```").FindStringSubmatch(string(text))
	if file == nil {
		t.Fatal("docs/repair.md has no file of ifupdown")
	}
	m := bootWithout(t, networkManager)
	m.must("systemctl", "stop", "firewalld.service")
	m.write(file[1], strings.NewReplacer("web0", "iptables0", "10.88.", "10.96.").Replace(file[2]))
	m.must("ifup", "iptables0")
	ways := m.traffic("iptables")
	for _, between := range []string{"true", "until ip link show iptables0; do sleep 0.05; done"} {
		m.testCommand(ways, "ifdown iptables0; "+between+"; ifup iptables0", func() { m.must("ifquery", "--state", "iptables0") })
	}
}

func (m *machine) awaitRepaired() {
	m.Helper()
	m.await("nothing is missing", func() bool { _, code := m.exitCode("allocnet", "repair", "--dry-run"); return code == 0 })
}

// repairs is the number of those that the agent has made.
func (m *machine) repairs() int {
	m.Helper()
	return strings.Count(m.must("allocnet", "events", "--json"), `"operation":"repair"`)
}
