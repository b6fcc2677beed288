// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package repair

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/sandbox"
	"github.com/allocnet/allocnet/internal/sandbox/stream"
	"github.com/allocnet/allocnet/portmap"
	"github.com/allocnet/allocnet/selection"
)

// TestLongFlowsBegunMeanwhile: the kernel decides with the first packet of a flow whether it translates
// its addresses. Flows that begin while the rules are missing, and go on, work after the repair, and
// those that were translated before, and those of others, are the same as before.
func TestLongFlowsBegunMeanwhile(t *testing.T) {
	for _, test := range []struct{ backend, damage string }{
		{"iptables", "flush ruleset"}, {"iptables", "flush table ip nat"}, {"nftables", "flush ruleset"},
	} {
		t.Run(test.backend+" "+test.damage, func(t *testing.T) {
			h := newFlowHost(t, test.backend)
			before := h.startAll(true)
			h.send("of the host", own, peerAddress+":9") // it has no answer
			kept := h.awaitFlows("dport=443 .*ASSURED", "dport=8080 .*ASSURED", "dport=5300", "dport=8053", "src="+hostAddress+" .*dport=9 ")
			shell(t, "nft '"+test.damage+refuseSilently+"'")
			meanwhile := h.startAll(false)
			h.awaitFlows("SYN_SENT src=10.88.* dst=10.88", "SYN_SENT .*dport=8080 .*src="+hostAddress, "udp .*src=10.88.*dport=5300 .*dst=10.88", "udp .*dport=8053 .*src="+hostAddress)
			if repaired := missing(h.repair(hook.RepairRules)); repaired == "" {
				t.Error("nothing was missing")
			}
			for _, f := range append(meanwhile, before...) {
				answers := f.answers.Load()
				sandbox.Eventually(t, "an answer on the flow "+f.name, func() bool { return f.answers.Load() > answers }, h.flows)
			}
			after := h.flows()
			for _, id := range kept {
				if !strings.Contains(after, id) {
					t.Errorf("the flow with %s is forgotten, there are\n%s", id, after)
				}
			}
		})
	}
}

// refuseSilently keeps a host from refusing connections, as many firewalls do, and has the kernel track flows.
const refuseSilently = "; add table inet silent; add chain inet silent out { type filter hook output priority raw; };" +
	" add rule inet silent out tcp flags rst drop; add rule inet silent out ct state established accept"

// flowHost is a host with an allocation that publishes a TCP and a UDP port, and echoes.
type flowHost struct {
	*host
	inside string
}

func newFlowHost(t *testing.T, backend string) *flowHost {
	h := newHost(t, hook.ExecutorAuto, backend)
	a, err := h.engine.Setup(context.Background(), hook.Request{
		ID: "one", Primary: &selection.Element{Name: "web", Interface: "eth0", Ports: []string{"http", "dns"}},
		Ports: []portmap.Port{{Label: "http", HostPort: 8080, To: 80, Protocol: "tcp"}, {Label: "dns", HostPort: 8053, To: 53, Protocol: "udp"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		shell(t, "nft delete table inet silent")
		h.detach("one")
	})
	h.run("conntrack -F") // those of an earlier host, which end during the test
	f := &flowHost{h, a.Netns}
	stream.Listen(t, outside, ":443")
	stream.Listen(t, f.inside, ":80")
	f.echo(outside, ":5300")
	f.echo(f.inside, ":53")
	return f
}

// echo returns datagrams.
func (h *flowHost) echo(path, address string) {
	h.Helper()
	var conn net.PacketConn
	h.within(path, func() (err error) {
		conn, err = net.ListenPacket("udp4", address)
		return err
	})
	h.Cleanup(func() { _ = conn.Close() })
	go func() {
		buffer := make([]byte, 1)
		for {
			_, from, err := conn.ReadFrom(buffer)
			if err != nil {
				return
			}
			_, _ = conn.WriteTo(buffer, from)
		}
	}()
}

// steady is a flow on which a byte is sent at each step.
type steady struct {
	name    string
	answers atomic.Int64
}

// startAll starts a TCP and a UDP flow to the outside, and one of each to a published port. Where
// they work, they have answers then.
func (h *flowHost) startAll(work bool) []*steady {
	h.Helper()
	var all []*steady
	for _, way := range []stream.Way{{Name: "to the outside", From: h.inside, To: peerAddress + ":443"}, {Name: "to the published port", From: outside, To: hostAddress + ":8080"}} {
		all = append(all, h.start("tcp", way))
	}
	all = append(all, h.send("to the outside by UDP", h.inside, peerAddress+":5300"), h.send("to the published UDP port", outside, hostAddress+":8053"))
	for _, f := range all {
		if work {
			sandbox.Eventually(h, "an answer on the flow "+f.name, func() bool { return f.answers.Load() > 0 }, h.flows)
		}
	}
	return all
}

func (h *flowHost) send(name, from, to string) *steady {
	return h.start("udp", stream.Way{Name: name, From: from, To: to})
}

// start starts a flow, which ends with the test.
func (h *flowHost) start(network string, w stream.Way) *steady {
	h.Helper()
	f := &steady{name: w.Name}
	ctx, stop := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() {
		var conn net.Conn
		h.within(w.From, func() (err error) {
			conn, _ = (&net.Dialer{}).DialContext(ctx, network, w.To)
			return nil
		})
		if conn == nil {
			return
		}
		defer conn.Close() // ends the reader
		group.Go(func() { f.count(conn) })
		ticker := time.NewTicker(stream.Step)
		defer ticker.Stop()
		for ctx.Err() == nil {
			_, _ = conn.Write([]byte{1}) // the host refuses UDP meanwhile
			select {
			case <-ticker.C:
			case <-ctx.Done():
			}
		}
	})
	h.Cleanup(func() {
		stop()
		group.Wait()
	})
	return f
}

func (f *steady) count(conn net.Conn) {
	buffer := make([]byte, 1)
	for {
		_, err := conn.Read(buffer)
		switch {
		case err == nil:
			f.answers.Add(1)
		case !errors.Is(err, unix.ECONNREFUSED): // what UDP goes on after
			return
		}
	}
}

// flows are those of IPv4 that the host knows.
func (h *flowHost) flows() string {
	out, err := exec.Command("conntrack", "-L", "-o", "id").Output()
	return fmt.Sprintln(string(out), err)
}

// awaitFlows waits until there is a flow of each pattern, and returns their IDs.
func (h *flowHost) awaitFlows(patterns ...string) []string {
	h.Helper()
	var ids []string
	for _, pattern := range patterns {
		sandbox.Eventually(h, "a flow "+pattern, func() bool {
			lines := strings.Split(h.flows(), "\n")
			i := slices.IndexFunc(lines, regexp.MustCompile(pattern).MatchString)
			if i >= 0 {
				ids = append(ids, regexp.MustCompile(`id=\d+`).FindString(lines[i]))
			}
			return i >= 0
		}, h.flows)
	}
	return ids
}
