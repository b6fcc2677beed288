// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package span

import (
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/internal/sandbox/cluster"
)

// path is a way between namespaces of two clients.
type path struct {
	name string
	// client is a command in the first namespace.
	client  func(words ...string) *exec.Cmd
	address string
	// throughput is in Mbit/s, and latency in µs.
	throughput, latency []float64
}

// BenchmarkSpanPaths measures the ways between allocations of two clients on one link, and what an
// operator would make manually: a plain route to each client, and what flannel does with the
// back end host-gw. They come in turn; the figures are medians of rounds, and ratios to the plain
// route in the same round.
func BenchmarkSpanPaths(b *testing.B) {
	s := take(b)
	s.runJob()
	from, to := s.on(0), s.on(1)
	paths := []*path{s.plain(b), s.hostGateway(b)}
	for _, network := range networks {
		paths = append(paths, &path{name: network, client: from.command, address: to.addresses[network][0].String()})
	}
	must(b, from.reach([]peer{from, to}))
	s.silence()
	for b.Loop() {
		for round := range 10 {
			for i := range paths {
				p := paths[(i+round)%len(paths)] // none is always first
				p.throughput = append(p.throughput, p.measure(b, "throughput", "700"))
				p.latency = append(p.latency, p.measure(b, "latency", "2000"))
			}
		}
	}
	b.ReportMetric(0, "ns/op")
	first := paths[0]
	for _, p := range paths {
		b.ReportMetric(median(p.throughput), p.name+"-Mbit/s")
		b.ReportMetric(median(p.latency), p.name+"-us")
		b.ReportMetric(ratio(p.throughput, first.throughput), p.name+"-throughput/plain")
		b.ReportMetric(ratio(p.latency, first.latency), p.name+"-latency/plain")
	}
}

// silence ends all daemons: what is measured is the kernel's work.
func (s *scene) silence() {
	s.Helper()
	for _, m := range append(lab.Servers, lab.Clients...) {
		for _, daemon := range []string{cluster.Agent, cluster.Nomad} {
			if m.Runs(daemon) {
				must(s, m.Signal(daemon, 9))
			}
		}
	}
}

func (p *path) measure(b *testing.B, what, size string) float64 {
	b.Helper()
	out, err := p.client("traffic", what, p.address, size).CombinedOutput()
	if err != nil {
		b.Fatalf("%s, %s: %v: %s", p.name, what, err, out)
	}
	value, err := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
	must(b, err)
	return value
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// ratio is the median of the ratios within a round.
func ratio(values, others []float64) float64 {
	var ratios []float64
	for i := range values {
		ratios = append(ratios, values[i]/others[i])
	}
	return median(ratios)
}

// plain is a route to each client, whose namespaces have a veth pair.
func (s *scene) plain(b *testing.B) *path {
	b.Helper()
	return s.byHand(b, "plain", 200, func(m *cluster.Machine, subnet string) []string {
		return []string{"ip link set plain0 up", "ip address add " + subnet + ".1/24 dev plain0"}
	})
}

// hostGateway is a bridge on each client, a route to the other, and rules as those of flannel:
// packets between allocations are accepted, and are not masqueraded.
func (s *scene) hostGateway(b *testing.B) *path {
	b.Helper()
	return s.byHand(b, "hostgw", 201, func(m *cluster.Machine, subnet string) []string {
		return []string{
			"ip link add cni0 type bridge", "ip link set cni0 up", "ip address add " + subnet + ".1/24 dev cni0",
			"ip link set hostgw0 master cni0 up",
			"iptables -t nat -N FLANNEL-POSTRTG", "iptables -t nat -A POSTROUTING -j FLANNEL-POSTRTG",
			"iptables -t nat -A FLANNEL-POSTRTG -s " + subnet + ".0/24 -d 10.201.0.0/16 -j RETURN",
			"iptables -t nat -A FLANNEL-POSTRTG -s 10.201.0.0/16 -d 10.201.0.0/16 -j RETURN",
			"iptables -t nat -A FLANNEL-POSTRTG -s 10.201.0.0/16 ! -d 224.0.0.0/4 -j MASQUERADE",
			"iptables -N FLANNEL-FWD", "iptables -A FORWARD -j FLANNEL-FWD",
			"iptables -A FLANNEL-FWD -s 10.201.0.0/16 -j ACCEPT", "iptables -A FLANNEL-FWD -d 10.201.0.0/16 -j ACCEPT",
		}
	})
}

// byHand makes a namespace on each of the first two clients, with routes to the other.
func (s *scene) byHand(b *testing.B, name string, number int, host func(m *cluster.Machine, subnet string) []string) *path {
	b.Helper()
	inside := func(m *cluster.Machine) func(words ...string) *exec.Cmd {
		return func(words ...string) *exec.Cmd {
			return m.Command(append([]string{"ip", "netns", "exec", name}, words...)...)
		}
	}
	clients := lab.Clients[:2]
	for i, m := range clients {
		subnet, other := fmt.Sprintf("10.%d.%d", number, i+1), fmt.Sprintf("10.%d.%d", number, 2-i)
		commands := append([]string{"ip netns add " + name, "ip link add " + name + "0 type veth peer name eth0 netns " + name}, host(m, subnet)...)
		commands = append(commands,
			"ip -n "+name+" address add "+subnet+".2/24 dev eth0", "ip -n "+name+" link set lo up", "ip -n "+name+" link set eth0 up",
			"ip -n "+name+" route add default via "+subnet+".1",
			"ip route add "+other+".0/24 via "+clients[1-i].Address.String())
		for _, command := range commands {
			_, err := m.Run(strings.Fields(command)...)
			must(b, err)
		}
	}
	server := inside(clients[1])("traffic", "serve")
	must(b, server.Start())
	b.Cleanup(func() { _ = errors.Join(server.Process.Kill(), server.Wait()) }) // nsenter; the server ends with its machine
	return &path{name: name, client: inside(clients[0]), address: fmt.Sprintf("10.%d.2.2", number)}
}
