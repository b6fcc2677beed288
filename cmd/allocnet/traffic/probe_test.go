// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package traffic

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/cniconf"
	"github.com/allocnet/allocnet/hook"
	"github.com/allocnet/allocnet/internal/echo"
	"github.com/allocnet/allocnet/isolation"
	"github.com/allocnet/allocnet/state"
)

// attachedTo is an attachment with an address.
func attachedTo(network, iface, address string) hook.Attachment {
	n := hook.Attachment{Network: network, Interface: iface, Phase: state.Attached}
	n.Addresses, n.MTU = []netip.Prefix{netip.MustParsePrefix(address)}, 1500
	return n
}

// probedHost has three allocations: web-1 on open and lan, db-1 and db-2 on db, which is strict, and db-2 on lan.
func probedHost(t *testing.T) *prober {
	t.Helper()
	lan, err := cniconf.ParseNetwork("lan.conflist", []byte(`{"cniVersion": "1.0.0", "name": "lan", "plugins": [{"type": "bridge", "bridge": "lan0", "isGateway": true, "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.9.0.0/16"}]]}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	web := &hook.Allocation{ID: "web-1", Attachments: []hook.Attachment{attachedTo("open", "eth0", "10.0.0.5/24"), attachedTo("lan", "net1", "10.9.0.5/16")}}
	web.Attachments[0].Primary, web.Attachments[0].Gateways = true, []netip.Addr{netip.MustParseAddr("10.0.0.1")}
	web.Attachments[0].Ports = []hook.PortMapping{{HostPort: 8080, ContainerPort: 80, Protocol: "tcp"}, {HostPort: 53, ContainerPort: 53, Protocol: "udp"}, {HostPort: 81, ContainerPort: 81, Protocol: "tcp", HostIP: "192.0.2.7"}}
	web.DNS.Servers = []string{"192.0.2.53", "resolver"}
	one := &hook.Allocation{ID: "db-1", Attachments: []hook.Attachment{attachedTo("db", "net1", "10.1.0.5/24")}}
	two := &hook.Allocation{ID: "db-2", Attachments: []hook.Attachment{attachedTo("db", "net1", "10.1.0.6/24"), attachedTo("lan", "net2", "10.9.0.6/16")}}
	gone := &hook.Allocation{ID: "gone-1", Attachments: []hook.Attachment{{Network: "lan", Interface: "net1", Phase: hook.Missing, Missing: "interface gone"}}}
	member := func(id, network string, level isolation.Level, link, address string) isolation.Member {
		return isolation.Member{ID: id, Network: network, Level: level, Link: link, Addresses: []netip.Addr{netip.MustParseAddr(address)}}
	}
	return &prober{
		traffic: traffic{
			allocations: []*hook.Allocation{web, one, two, gone},
			members: []isolation.Member{
				member("web-1", "open", isolation.None, "open0", "10.0.0.5"), member(state.ContainerID("db-1", "net1"), "db", isolation.Strict, "db0", "10.1.0.5"), member(state.ContainerID("db-2", "net1"), "db", isolation.Strict, "db0", "10.1.0.6"),
			},
		},
		own: []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("10.0.0.1")}, outward: []netip.Addr{netip.MustParseAddr("192.0.2.1")},
		networks: []*cniconf.Network{lan},
	}
}

// TestProbes: what there is to reach is tried, what rules deny or cannot answer is not, and what is not attached has failed.
func TestProbes(t *testing.T) {
	p := probedHost(t)
	for i, want := range [][]string{
		{
			"gateway eth0 10.0.0.1: echo", "neighbour eth0 : skipped", "mtu eth0 1500 bytes to 10.0.0.1: echo of 1500",
			"port eth0 8080->80/tcp: connect 192.0.2.1:8080 10.0.0.5:80", "port eth0 53->53/udp: skipped", "port eth0 192.0.2.7:81->81/tcp: connect 192.0.2.7:81 10.0.0.5:81",
			"gateway net1 10.9.0.1: echo", "neighbour net1 10.9.0.6 (db-2): echo", "mtu net1 1500 bytes to 10.9.0.1: echo of 1500",
			"dns  192.0.2.53: dns", "dns  resolver: skipped",
		},
		{"gateway net1 : skipped", "neighbour net1 10.1.0.6 (db-2): skipped", "mtu net1 1500: skipped"},
		{"gateway net1 : skipped", "neighbour net1 10.1.0.5 (db-1): skipped", "mtu net1 1500: skipped", "gateway net2 10.9.0.1: echo", "neighbour net2 10.9.0.5 (web-1): echo", "mtu net2 1500 bytes to 10.9.0.1: echo of 1500"},
		{"attachment net1 : failed"},
	} {
		a := p.allocations[i]
		var got []string
		for _, r := range p.probes(a) {
			got = append(got, fmt.Sprintf("%s %s %s: %s", r.Kind, r.Interface, r.Target, done(r)))
			if tried := r.echo != nil || r.dns.IsValid() || r.connect != nil; tried == (r.Outcome != "") {
				t.Errorf("%s: %+v is both tried and known, or neither", a.ID, r)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s:\n%s\nwant\n%s", a.ID, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	if r := p.probes(p.allocations[1])[1]; !strings.HasPrefix(r.Detail, "denied: ") {
		t.Errorf("a neighbour of a strict network: %+v", r)
	}
}

// done is what is tried.
func done(r *probe) string {
	switch {
	case r.echo != nil && r.echo.Size > 0:
		return fmt.Sprintf("echo of %d", r.echo.Size)
	case r.echo != nil:
		return "echo"
	case r.dns.IsValid():
		return "dns"
	case r.connect != nil:
		return fmt.Sprintf("connect %s %s", r.connect.host, r.connect.inside)
	}
	return string(r.Outcome)
}

// TestMostNeighbours: a network with many others is not flooded.
func TestMostNeighbours(t *testing.T) {
	p := &prober{}
	for i := range 9 {
		p.allocations = append(p.allocations, &hook.Allocation{ID: fmt.Sprint("a", i), Attachments: []hook.Attachment{attachedTo("lan", "net1", fmt.Sprintf("10.9.0.%d/16", i+2))}})
	}
	if got := p.neighbours(p.allocations[0], p.allocations[0].Attachments[0]); len(got) != mostNeighbours {
		t.Errorf("%d are asked", len(got))
	}
}

// TestConclude: what works has no next thing, and a packet that is too long says so.
func TestConclude(t *testing.T) {
	r := probe{Next: "look"}
	if r.conclude("1ms", nil); r.Outcome != works || r.Detail != "1ms" || r.Next != "" {
		t.Errorf("what works: %+v", r)
	}
	r = probe{Next: "look", echo: &echo.Request{Size: 9000}}
	if r.conclude("1ms", r.explain(unix.EMSGSIZE)); r.Outcome != failed || !strings.Contains(r.Detail, "cannot send 9000 bytes") || r.Next != "look" {
		t.Errorf("what fails: %+v", r)
	}
	if err := r.explain(echo.ErrSilent); !errors.Is(err, echo.ErrSilent) || !strings.Contains(err.Error(), "9000 bytes") {
		t.Errorf("without a reply: %v", err)
	}
}

// TestProbeAll: a namespace that is gone is what a probe finds, and what is known is not tried.
func TestProbeAll(t *testing.T) {
	gone := errors.New("the namespace is gone")
	probes := []*probe{{Allocation: "a1", echo: &echo.Request{}}, {Allocation: "a2", Outcome: skipped}}
	probeAll(t.Context(), probes, func(id string) (string, func() error, error) {
		if id != "a1" {
			t.Errorf("%s is opened", id)
		}
		return "", nil, gone
	})
	if probes[0].Outcome != failed || probes[0].Detail != gone.Error() || probes[1].Outcome != skipped {
		t.Errorf("%+v, %+v", probes[0], probes[1])
	}
}

// TestAsk: a name server is one that answers; whatever it answers.
func TestAsk(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	end()
	if err := ask(ctx, netip.MustParseAddr("127.0.0.1")); err == nil {
		t.Error("an answer after the end")
	}
}

// TestProbedFamily: a port on an address of the host leads to the attachment's address of the same family.
func TestProbedFamily(t *testing.T) {
	p, a := &prober{}, &hook.Allocation{ID: "a", Attachments: []hook.Attachment{attachedTo("open", "eth0", "10.0.0.5/24")}}
	n := &a.Attachments[0]
	n.Ports = []hook.PortMapping{{HostPort: 80, ContainerPort: 80, Protocol: "tcp", HostIP: "192.0.2.7"}, {HostPort: 80, ContainerPort: 80, Protocol: "tcp", HostIP: "2001:db8::7"}}
	for _, want := range []string{"connect 192.0.2.7:80 10.0.0.5:80, skipped", "connect 192.0.2.7:80 10.0.0.5:80, connect [2001:db8::7]:80 [fd00::5]:80"} {
		all := p.ports(a, *n)
		if got := done(all[0]) + ", " + done(all[1]); got != want {
			t.Errorf("%v: %s, want %s", n.Addresses, got, want)
		}
		n.Addresses = append(n.Addresses, netip.MustParsePrefix("fd00::5/64"))
	}
}
