// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// Addresses of the router and of its peer, as routerAddress and peerAddress.
const (
	routerAddress6 = "fd00:2::1"
	peerAddress6   = "fd00:2::2"
)

// machine is a host of its own, with a peer that has no route to its allocations.
type machine struct {
	*host
	// name is also that of its namespace. That of the peer is NAME-peer, and those of each option are NAME-taskN and
	// NAME-otherN.
	name, backend, executor string
	err                     error
}

func newMachine(t *testing.T, backend, executor string) *machine {
	t.Helper()
	m := &machine{&host{t: t, conf: t.TempDir(), plugins: t.TempDir(), state: t.TempDir()}, backend + "-" + executor, backend, executor, nil}
	m.namespace("")
	m.namespace("-peer")
	sandbox.Run(t, "ip", "-n", m.name, "link", "add", "up0", "type", "veth", "peer", "name", "eth0", "netns", m.name+"-peer")
	for at, addresses := range map[string][]string{m.name + " up0": {routerAddress + "/24", routerAddress6 + "/64"}, m.name + "-peer eth0": {peerAddress + "/24", peerAddress6 + "/64"}} {
		namespace, link, _ := strings.Cut(at, " ")
		for _, address := range addresses {
			sandbox.Run(t, "ip", "-n", namespace, "address", "add", address, "dev", link)
		}
		sandbox.Run(t, "ip", "-n", namespace, "link", "set", link, "up")
	}
	if _, err := os.Stat("/proc/sys/net/bridge"); err == nil { // else it is as if off
		sandbox.Run(t, "ip", "netns", "exec", m.name, "sysctl", "-qw", "net.bridge.bridge-nf-call-iptables=0", "net.bridge.bridge-nf-call-ip6tables=0")
	}
	m.markChain()
	for n, o := range compared {
		sandbox.WriteFile(t, fmt.Sprintf("%s/%02d-web.conflist", m.conf, n), o.conflist(n, backend, m.state+"/leases"))
		m.namespace(fmt.Sprint("-task", n))
		m.namespace(fmt.Sprint("-other", n))
	}
	return m
}

// namespace makes one in which addresses are usable at once.
func (m *machine) namespace(suffix string) {
	m.t.Helper()
	path, err := netns.Create(netns.DefaultDir, m.name+suffix)
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { _ = netns.Remove(path) })
	if err := within(path, func() error { return os.WriteFile("/proc/sys/net/ipv6/conf/default/accept_dad", []byte("0"), 0) }); err != nil {
		m.t.Fatal(err)
	}
	sandbox.Run(m.t, "ip", "-n", m.name+suffix, "link", "set", "lo", "up")
}

// markChain makes the chain that externalSetMarkChain names, and what the operator has masqueraded by its mark.
func (m *machine) markChain() {
	m.t.Helper()
	for _, program := range []string{"iptables", "ip6tables"} {
		for _, rule := range []string{"-N OPS-MARK", "-A OPS-MARK -j MARK --set-xmark 0x40000/0x40000", "-A POSTROUTING -m mark --mark 0x40000/0x40000 -j MASQUERADE"} {
			sandbox.Run(m.t, append([]string{"ip", "netns", "exec", m.name, program, "-w", "-t", "nat"}, strings.Fields(rule)...)...)
		}
	}
}

// attach attaches two allocations to each network. Those with a key that the backend refuses have to fail.
func (m *machine) attach() error {
	for n, o := range compared {
		for _, allocation := range []string{"other", "task"} {
			mappings := "[]"
			if allocation == "task" {
				mappings = o.mappings(n)
			}
			network := fmt.Sprintf(`[{"name": "web%d", "interface": "eth0", "portMappings": %s}]`, n, mappings)
			err := m.run("attach", fmt.Sprintf("%s-%s%d", m.name, allocation, n), "--networks", network)
			if key := o.refusedBy(m.backend); key != "" && err != nil && strings.Contains(err.Error(), key) {
				continue
			} else if key != "" || err != nil {
				return fmt.Errorf("%s, of which the key %q has to be refused: %w", o, key, err)
			}
		}
	}
	return nil
}

// run runs a verb of allocnet on the machine for an allocation, whose namespace has its name.
func (m *machine) run(verb, allocation string, flags ...string) error {
	if verb == "attach" {
		flags = append(flags, "--netns", "/run/netns/"+allocation)
	}
	cmd := m.command(append([]string{verb, allocation}, flags...)...)
	cmd.Env = append(cmd.Env, "ALLOCNET_EXECUTOR="+m.executor)
	cmd.Args = append([]string{"ip", "netns", "exec", m.name}, cmd.Args...)
	cmd.Path = "/sbin/ip"
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", verb, allocation, err, out)
	}
	return nil
}

// serve has the peer and each task answer each client with the client's address.
func (m *machine) serve() {
	m.t.Helper()
	namespaces := []string{"-peer"}
	for n := range compared {
		namespaces = append(namespaces, fmt.Sprint("-task", n))
	}
	for _, namespace := range namespaces {
		path := "/run/netns/" + m.name + namespace
		tellAddress(m.t, path, ":80", net.Conn.RemoteAddr)
		m.answerDatagrams(path)
	}
}

func (m *machine) answerDatagrams(path string) {
	m.t.Helper()
	var conn net.PacketConn
	err := within(path, func() (err error) {
		conn, err = net.ListenPacket("udp", ":80")
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

// ask returns as whom the probes are seen, empty where none answers.
func (m *machine) ask(probes []probe, limit time.Duration) map[probe]string {
	all := map[probe]string{}
	var mutex sync.Mutex
	var asked sync.WaitGroup
	for _, p := range probes {
		asked.Go(func() {
			seen := p.ask("/run/netns/"+m.name+p.namespace, limit)
			mutex.Lock()
			defer mutex.Unlock()
			all[p] = seen
		})
	}
	asked.Wait()
	return all
}

func (p probe) ask(path string, limit time.Duration) (seen string) {
	var conn net.Conn
	err := within(path, func() (err error) {
		conn, err = net.DialTimeout(p.protocol, p.to, limit)
		return err
	})
	if err != nil {
		return "" // an error is no answer
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(limit)) // never fails
	if p.protocol == "udp" {
		_, _ = conn.Write([]byte("?"))
	}
	buffer := make([]byte, 64)
	n, _ := conn.Read(buffer)
	return string(buffer[:n])
}
