// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"fmt"
	"maps"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/allocnet/allocnet/internal/exhaustive"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// published is a way to publish a port.
type published struct {
	// options are keys of portmap.
	options string
	// hostIP is the address on the host. Empty: all.
	hostIP   string
	protocol string
}

// machine is a host of its own, with a peer that has no route to its allocations.
type machine struct {
	*host
	// name is also that of its namespace. The others are NAME-peer, NAME-task and NAME-other.
	name string
}

// publishedPort is the port on the host, taskPort that of the task.
const (
	publishedPort = 8600
	taskPort      = 80
)

// TestBackendsByPackets: a published port answers with both backends and executors from the same places, and the task
// sees the same clients, but for what withNFTables says.
func TestBackendsByPackets(t *testing.T) {
	for _, options := range []string{``, `"snat": false,`, `"masqAll": true,`, `"markMasqBit": 14,`} {
		for _, hostIP := range []string{"", routerAddress, "127.0.0.1"} {
			for _, protocol := range []string{"tcp", "udp"} {
				p := published{options, hostIP, protocol}
				exhaustive.Run(t, fmt.Sprintf("%s %s %s", strings.Trim(options, ","), hostIP, protocol), p.compare)
			}
		}
	}
}

func (p published) compare(t *testing.T) {
	var machines []machine
	for _, backend := range []string{"iptables", "nftables"} {
		for _, executor := range []string{"plugins", "auto"} {
			machines = append(machines, p.machine(t, backend+"-"+executor, backend, executor))
		}
	}
	reference := p.answers(machines[0], time.Second)
	for _, m := range machines[1:] {
		want, got := p.wanted(m, reference), p.answers(m, time.Second)
		if !cmp.Equal(want, got) { // maybe the machine is busy
			reference = p.answers(machines[0], patience)
			want, got = p.wanted(m, reference), p.answers(m, patience)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", m.name, diff)
		}
	}
	for _, m := range machines {
		m.in("task", "detach")
		m.in("other", "detach")
	}
}

// wanted returns the answers of a machine, by those of the plugin with iptables.
func (p published) wanted(m machine, reference map[string]string) map[string]string {
	if strings.HasPrefix(m.name, "iptables") {
		return reference
	}
	return p.withNFTables(reference)
}

// withNFTables returns what differs with nftables: it masquerades connections from the task itself and from 127.0.0.1
// alone, also with masqAll. So the answers to another allocation on the bridge do not come back by the host.
func (p published) withNFTables(reference map[string]string) map[string]string {
	want := maps.Clone(reference)
	want["another allocation"] = ""
	if strings.Contains(p.options, "masqAll") {
		for client, address := range map[string]string{"the host": routerAddress, "the peer": peerAddress} {
			if want[client] != "" {
				want[client] = address
			}
		}
	}
	return want
}

// in runs a verb of allocnet on the machine for one of its allocations.
func (m machine) in(allocation string, words ...string) {
	m.t.Helper()
	cmd := m.command(append(words[:1:1], append([]string{m.name + "-" + allocation}, words[1:]...)...)...)
	cmd.Args = append([]string{"ip", "netns", "exec", m.name}, cmd.Args...)
	cmd.Path = "/sbin/ip"
	if out, err := cmd.CombinedOutput(); err != nil {
		m.t.Fatalf("%s: %v: %v\n%s", m.name, words, err, out)
	}
}

// machine makes one with an allocation that publishes the port, and another one.
func (p published) machine(t *testing.T, name, backend, executor string) machine {
	t.Helper()
	t.Setenv("ALLOCNET_EXECUTOR", executor)
	m := machine{&host{t: t, conf: t.TempDir(), plugins: t.TempDir(), state: t.TempDir()}, name}
	for _, namespace := range []string{"", "-peer", "-task", "-other"} {
		sandbox.Run(t, "ip", "netns", "add", name+namespace)
		t.Cleanup(func() { sandbox.Run(t, "ip", "netns", "del", name+namespace) })
		sandbox.Run(t, "ip", "-n", name+namespace, "link", "set", "lo", "up")
	}
	if _, err := os.Stat("/proc/sys/net/bridge"); err == nil { // else it is as if off
		sandbox.Run(t, "ip", "netns", "exec", name, "sysctl", "-qw", "net.bridge.bridge-nf-call-iptables=0")
	}
	sandbox.Run(t, "ip", "-n", name, "link", "add", "up0", "type", "veth", "peer", "name", "eth0", "netns", name+"-peer")
	for namespace, address := range map[string]string{name + " up0": routerAddress, name + "-peer eth0": peerAddress} {
		namespace, link, _ := strings.Cut(namespace, " ")
		sandbox.Run(t, "ip", "-n", namespace, "address", "add", address+"/24", "dev", link)
		sandbox.Run(t, "ip", "-n", namespace, "link", "set", link, "up")
	}
	sandbox.WriteFile(t, m.conf+"/10-web.conflist", fmt.Sprintf(`{"cniVersion": "1.0.0", "name": "web", "plugins": [
		{"type": "bridge", "bridge": "web0", "isDefaultGateway": true, "hairpinMode": true, "ipam": {"type": "host-local", "subnet": "10.97.0.0/24", "dataDir": %q}},
		{"type": "portmap", "backend": %q, %s "capabilities": {"portMappings": true}}]}`, t.TempDir(), backend, p.options))
	m.in("other", "attach", "--netns", "/run/netns/"+name+"-other", "--networks", "web@eth0")
	m.in("task", "attach", "--netns", "/run/netns/"+name+"-task", "--networks", fmt.Sprintf(
		`[{"name": "web", "interface": "eth0", "portMappings": [{"hostPort": %d, "containerPort": %d, "protocol": %q, "hostIP": %q}]}]`, publishedPort, taskPort, p.protocol, p.hostIP))
	m.tellClients(p.protocol)
	return m
}

// tellClients has the task answer each client with the client's address.
func (m machine) tellClients(protocol string) {
	m.t.Helper()
	if protocol == "tcp" {
		tellAddress(m.t, "/run/netns/"+m.name+"-task", fmt.Sprintf(":%d", taskPort), net.Conn.RemoteAddr)
		return
	}
	var conn net.PacketConn
	err := within("/run/netns/"+m.name+"-task", func() (err error) {
		conn, err = net.ListenPacket("udp", fmt.Sprintf(":%d", taskPort))
		return err
	})
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { _ = conn.Close() })
	go func() {
		for buffer := make([]byte, 16); ; {
			_, client, err := conn.ReadFrom(buffer)
			if err != nil {
				return
			}
			_, _ = conn.WriteTo([]byte(client.(*net.UDPAddr).IP.String()), client)
		}
	}()
}

// answers returns as whom the task sees each client, empty where none answers.
func (p published) answers(m machine, limit time.Duration) map[string]string {
	clients := map[string][2]string{
		"the host": {m.name, routerAddress}, "loopback of the host": {m.name, "127.0.0.1"}, "the peer": {m.name + "-peer", routerAddress},
		"the task": {m.name + "-task", routerAddress}, "another allocation": {m.name + "-other", routerAddress},
	}
	type answer struct{ client, seen string }
	seen := make(chan answer)
	for client, at := range clients {
		go func() { seen <- answer{client, m.askClient(p.protocol, at[0], at[1], limit)} }()
	}
	all := map[string]string{}
	for range clients {
		a := <-seen
		all[a.client] = a.seen
	}
	return all
}

func (m machine) askClient(protocol, namespace, to string, limit time.Duration) (seen string) {
	_ = within("/run/netns/"+namespace, func() error { // an error is no answer
		conn, err := net.DialTimeout(protocol, fmt.Sprintf("%s:%d", to, publishedPort), limit)
		if err != nil {
			return err
		}
		defer conn.Close()
		if err := conn.SetDeadline(time.Now().Add(limit)); err != nil {
			return err
		}
		if protocol == "udp" {
			_, _ = conn.Write([]byte("?"))
		}
		buffer := make([]byte, 64)
		n, err := conn.Read(buffer)
		seen = string(buffer[:n])
		return err
	})
	return seen
}
