// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package e2e

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/netns"
	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/internal/sandbox/stream"
	"github.com/allocnet/allocnet/isolation"
)

const (
	// trafficPairs is how often the host with isolation is compared with itself without, for each figure, and slice is how long each of both is measured.
	trafficPairs = 60
	slice        = 20 * time.Millisecond
	benchOutside = "198.18.0.2"
)

// trafficPath is a way that packets go. Both of its namespaces are the same ones with and without isolation.
type trafficPath struct {
	name, from, to string
	address        netip.Addr
	// neighbours are the ends and their addresses if they are apart with isolation: without they know each other's MAC, and with it that of the host.
	neighbours []neighbour
	// isAllowed is whether a rule has to let it pass.
	isAllowed bool
}

type neighbour struct {
	path    string
	address netip.Addr
	mac     net.HardwareAddr
}

// BenchmarkIsolationTraffic compares, on a host with 1,000 allocations, what traffic costs with isolation and numbers of rules with what it does if the
// tables are dormant, which is as if they were not there. Each slice with isolation is between two without. The control compares those in the same way:
// one without isolation with the two that are next to it.
func BenchmarkIsolationTraffic(b *testing.B) {
	h := newIsolationBench(b)
	near, apart := h.setUp(b, "near", "front", "job0"), h.setUp(b, "apart", "back", "job0")
	sandbox.Run(b, "sh", "-ec", `ip netns add outside; ip link add up0 type veth peer name eth0 netns outside; ip link set up0 up; ip addr add 198.18.0.1/24 dev up0
		ip -n outside link set lo up; ip -n outside link set eth0 up; ip -n outside addr add `+benchOutside+`/24 dev eth0; ip -n outside route add default via 198.18.0.1`)
	paths := []trafficPath{
		{name: "outside", from: h.client.Netns, to: netns.DefaultDir + "/outside", address: netip.MustParseAddr(benchOutside)},
		{name: "networks", from: h.client.Netns, to: h.server.Netns, address: addressOf(h.server), isAllowed: true},
		{name: "bridge", from: h.client.Netns, to: near.Netns, address: addressOf(near)},
		{name: "apart", from: apart.Netns, to: h.server.Netns, address: addressOf(h.server), isAllowed: true, neighbours: []neighbour{neighbourOf(b, apart), neighbourOf(b, h.server)}},
	}
	measured := []string{`allow "measured" {
  from {
    namespace = "prod"
    job       = "job0"
  }
  to { job = "job1" }
}
`}
	figures := map[string][]float64{}
	for _, rules := range []int{0, 100, mostRules} {
		h.install(b, rules, measured[:min(rules, 1)]...)
		for i := range paths {
			if p := &paths[i]; rules > 0 || !p.isAllowed {
				for _, load := range []stream.Load{stream.Bulk, stream.Packets, stream.Exchange} {
					h.compare(b, p, load, rules, figures)
				}
			}
		}
	}
	for b.Loop() { // measured above
	}
	b.ReportMetric(0, "ns/op")
	for unit, values := range figures {
		slices.Sort(values)
		b.ReportMetric(median(values), unit)
		if strings.HasSuffix(unit, "/none") {
			b.ReportMetric(values[len(values)/4], unit+"-low")
			b.ReportMetric(values[len(values)*3/4], unit+"-high")
		}
	}
}

func addressOf(a *hook.Allocation) netip.Addr { return a.Attachments[0].Addresses[0].Addr() }

func neighbourOf(b *testing.B, a *hook.Allocation) neighbour {
	b.Helper()
	n := neighbour{path: a.Netns, address: addressOf(a)}
	err := within(a.Netns, func() error {
		link, err := net.InterfaceByName(a.Attachments[0].Interface)
		if err == nil {
			n.mac = link.HardwareAddr
		}
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return n
}

// compare measures a load on a path, by turns with isolation and without.
func (h *isolationBench) compare(b *testing.B, p *trafficPath, load stream.Load, rules int, figures map[string][]float64) {
	b.Helper()
	without := []float64{h.cost(b, p, load, false)}
	name := fmt.Sprintf("%s-%s", p.name, load)
	for i := range trafficPairs {
		with := h.cost(b, p, load, true)
		without = append(without, h.cost(b, p, load, false))
		figures[fmt.Sprintf("%s-%d/none", name, rules)] = append(figures[fmt.Sprintf("%s-%d/none", name, rules)], (without[i]+without[i+1])/2/with)
		if i > 0 {
			figures[name+"-control/none"] = append(figures[name+"-control/none"], (without[i-1]+without[i+1])/2/without[i])
		}
	}
	figures[name+"-none-ns"] = append(figures[name+"-none-ns"], without...)
	setAwake(b, true)
}

// cost is that of one slice.
func (h *isolationBench) cost(b *testing.B, p *trafficPath, load stream.Load, isIsolated bool) float64 {
	b.Helper()
	setAwake(b, isIsolated)
	p.know(b, isIsolated)
	flows := stream.NewFlows(b, p.from, p.to, p.address)
	defer flows.Close()
	var cost time.Duration
	for _, length := range []time.Duration{slice / 5, slice} { // a connection is slow at first
		var err error
		if cost, err = flows.Cost(load, length); err != nil {
			b.Fatalf("%s, isolated: %t: %v", p.name, isIsolated, err)
		}
	}
	return float64(cost)
}

// setAwake has the tables see packets, or none.
func setAwake(b *testing.B, isAwake bool) {
	b.Helper()
	flags := "{ flags dormant; }"
	if isAwake {
		flags = ""
	}
	sandbox.Run(b, "nft", fmt.Sprintf("add table inet %[1]s %[2]s; add table bridge %[1]s %[2]s", isolation.Table, flags))
}

// know has neighbours that are apart with isolation send to each other, or to the host.
func (p *trafficPath) know(b *testing.B, isIsolated bool) {
	b.Helper()
	for i, n := range p.neighbours {
		other := p.neighbours[1-i]
		mac := other.mac
		if isIsolated {
			bridge, err := net.InterfaceByName("back0")
			if err != nil {
				b.Fatal(err)
			}
			mac = bridge.HardwareAddr
		}
		sandbox.Run(b, "nsenter", "--net="+n.path, "ip", "neigh", "replace", other.address.String(), "lladdr", mac.String(), "dev", "eth0", "nud", "permanent")
	}
}
