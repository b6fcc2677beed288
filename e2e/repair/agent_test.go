// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package repair

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/allocnet/allocnet/agent/api"
	"github.com/allocnet/allocnet/agent/client"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/internal/sandbox/stream"
	"github.com/allocnet/allocnet/selection"
)

// startAgent starts an agent of the host, which ends with the test, and returns its socket when its
// first repair, of an allocation, is complete.
func (h *host) startAgent(id string, blocks ...string) (socket string) {
	h.Helper()
	h.run("ip -n " + id + " link set lo down")
	conf := filepath.Join(h.dir, "agent.hcl")
	socket = filepath.Join(h.dir, "agent", "agent.sock")
	sandbox.WriteFile(h, conf, `conf_dir = "`+h.conf()+`"
plugin_dirs = ["`+sandbox.PluginDir()+`"]
state_dir = "`+h.state()+`"
socket {
  path = "`+socket+`"
}
`+strings.Join(blocks, "\n"))
	args := append(slices.Clone(h.launcher), binary, "agent", "--config", conf)
	cmd := exec.Command(args[0], args[1:]...)
	sandbox.StartDaemon(h, cmd, func() error { return client.New(socket).Ready(context.Background()) })
	sandbox.Eventually(h, "lo is repaired", func() bool {
		all, _ := h.repairs(socket)
		return all == 1
	})
	return socket
}

// agentHost is a host with two allocations, and traffic.
type agentHost struct {
	*host
	variables string
	// ways are those of the traffic: through a published port, to the outside, and between the
	// allocations. apart is one that no damage interrupts.
	ways  []stream.Way
	apart stream.Way
	// streams are new connections on the ways.
	streams []*stream.Stream
	// gaps are those of the damages that interrupt the streams.
	gaps []time.Duration
}

func newAgentHost(t testing.TB, backend string) *agentHost {
	t.Helper()
	h := &agentHost{host: newHost(t, hook.ExecutorAuto, backend)}
	second := h.attach("two", 8081, selection.Element{Name: "peer", Interface: "peer0"})
	first := h.attach("one", 8080, further...)
	t.Cleanup(func() {
		h.detach("one")
		h.detach("two")
	})
	h.variables = h.host.variables(first)
	address := func(i int) string { return second.Attachments[i].Addresses[0].Addr().String() }
	stream.Listen(t, first.Netns, ":80")
	stream.Listen(t, second.Netns, ":80")
	stream.Listen(t, outside, ":443")
	h.ways = []stream.Way{
		{Name: published, From: outside, To: hostAddress + ":8080"},
		{Name: masqueraded, From: first.Netns, To: peerAddress + ":443"},
		{Name: "to the other allocation", From: first.Netns, To: address(0) + ":80"},
	}
	h.apart = stream.Way{Name: "of the host on another network", From: own, To: address(1) + ":80"}
	for _, w := range h.ways {
		h.streams = append(h.streams, stream.Start(t, w, stream.Step))
	}
	return h
}

// own is the host's namespace.
const own = "/proc/self/ns/net"

// The ways on which addresses are translated.
const (
	published   = "to the published port"
	masqueraded = "to the outside"
)

// TestAgentRepairs damages a host in the ways of its operators, and the agent repairs it when the
// kernel tells: new connections can be made again, and no established one is lost.
func TestAgentRepairs(t *testing.T) {
	t.Run("iptables", func(t *testing.T) {
		testAgent(t, "iptables", some(slices.DeleteFunc(slices.Clone(damages), func(d damage) bool { return !slices.Contains(told, d.name) })))
	})
	t.Run("nftables", func(t *testing.T) { testAgent(t, "nftables", some(ofNFTables())) })
}

// TestLongAgentRepairsLegacy: so it does with iptables-legacy.
func TestLongAgentRepairsLegacy(t *testing.T) {
	useLegacy(t)
	testAgent(t, "iptables", legacyDamages()[1:2])
}

func testAgent(t *testing.T, backend string, damages []damage) {
	h := newAgentHost(t, backend)
	before := h.picture("one", "two")
	for _, d := range damages {
		if !t.Run(d.name, func(t *testing.T) { h.testDamage(t, d, before) }) {
			return // the next ones would wait for what this one has left
		}
	}
	slices.Sort(h.gaps)
	if len(h.gaps) == 0 {
		t.Fatal("no damage interrupts the traffic")
	}
	t.Logf("%d of %d damages interrupt; new connections after: median %s, longest %s", len(h.gaps), len(damages),
		h.gaps[len(h.gaps)/2].Round(time.Millisecond), h.gaps[len(h.gaps)-1].Round(time.Millisecond))
}

func (h *agentHost) testDamage(t *testing.T, d damage, before string) {
	on := &host{TB: t, engine: h.engine, dir: h.dir}
	socket := on.startAgent("two") // another one would pause between many repairs
	var talks []*stream.Talk
	for _, w := range append(slices.Clone(h.ways), h.apart) {
		talks = append(talks, stream.StartTalk(t, w))
	}
	stream.AwaitFlow(t, h.streams)
	began := time.Now()
	shell(t, h.variables+d.command)
	stream.AwaitFlow(t, h.streams)
	diff := "" // what these connections do not need may take a little longer
	sandbox.Eventually(t, "the host is as it was", func() bool {
		diff = difference(before, on.picture("one", "two"))
		return diff == ""
	}, func() string { return diff })
	stream.AwaitFlow(t, h.streams)
	gap := stream.LongestGap(h.streams, began)
	if gap > 0 {
		h.gaps = append(h.gaps, gap)
	}
	for _, talk := range talks {
		if isTranslated := talk.Name == published || talk.Name == masqueraded; !isTranslated || !slices.Contains(untranslated, d.name) {
			stream.RequireKept(t, talk)
		}
	}
	t.Logf("new connections after %s; silence of established ones %s", gap.Round(time.Millisecond), stream.Silences(talks))
	on.requireTold(socket)
}

// untranslated are the damages after which the kernel does not translate addresses, also not those
// of established connections: a host that gets a packet then may reset the connection.
var untranslated = []string{"nft flush ruleset", "tables deleted"}

// requireTold fails the test unless all repairs, but maybe the one of startAgent, followed a message
// of the kernel: the comparison at an interval would come too late for the traffic.
func (h *host) requireTold(socket string) {
	h.Helper()
	var all, told int
	sandbox.Eventually(h, "the kernel told of the damage that is repaired", func() bool {
		all, told = h.repairs(socket) // they are counted after the traffic is back
		return all > 1 && told >= all-1
	}, func() string { return fmt.Sprintf("of %d of %d", told, all) })
}

// repairs are those of an agent, and those of damage of which the kernel told.
func (h *host) repairs(socket string) (all, told int) {
	h.Helper()
	page := h.run("curl -sf --unix-socket " + socket + " http://agent" + api.PathMetrics)
	for _, found := range regexp.MustCompile(`(?m)^allocnet_repair(s_total|_delay_seconds_count)\{.*} (\d+)$`).FindAllStringSubmatch(page, -1) {
		switch count, _ := strconv.Atoi(found[2]); found[1] {
		case "s_total":
			all += count
		default:
			told += count
		}
	}
	return all, told
}

// told are the damages of which the kernel tells.
var told = []string{
	"nft flush ruleset", "iptables -F", "iptables -t nat -F", "bridge deleted", "port removed", "gateway address removed",
	"bridge down", "all routes deleted inside",
	"default route deleted inside", "interfaces down inside", "addresses deleted inside", "rules of source routing deleted",
}
