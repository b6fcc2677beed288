// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package inprocess

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// fakeFlows are flows of a host with the address 192.0.2.1.
type fakeFlows struct {
	flows     []flow
	forgotten []string
	listErr   error
	forgetErr error
}

func (f *fakeFlows) list() ([]flow, error) { return f.flows, f.listErr }

func (f *fakeFlows) forget(one flow) error {
	f.forgotten = append(f.forgotten, string(one.message))
	return f.forgetErr
}

func (*fakeFlows) isLocal(address netip.Addr) bool {
	return address == netip.MustParseAddr("192.0.2.1") || address == netip.MustParseAddr("2001:db8::1")
}

// aFlow returns a flow whose name is its message. The directions are source and destination.
func aFlow(name string, protocol uint8, original, reply string) flow {
	tuple := func(text string) flowTuple {
		source, destination, _ := strings.Cut(text, " ")
		from, to := netip.MustParseAddrPort(source), netip.MustParseAddrPort(destination)
		return flowTuple{from.Addr(), to.Addr(), from.Port(), to.Port()}
	}
	return flow{original: tuple(original), reply: tuple(reply), protocol: protocol, message: []byte(name)}
}

func (f flow) with(state uint8, answered bool) flow {
	f.state, f.answered = state, answered
	return f
}

const (
	tcp = unix.IPPROTO_TCP
	udp = unix.IPPROTO_UDP
)

// TestForgetFlows: those that began while rules were missing, and no others.
func TestForgetFlows(t *testing.T) {
	masqueraded := masquerade{networks: []net.IPNet{
		{IP: net.IPv4(10, 88, 0, 3), Mask: net.CIDRMask(16, 32)}, {IP: net.ParseIP("fd00:88::3"), Mask: net.CIDRMask(64, 128)},
	}}
	mappings := []portMapping{
		{HostPort: 8080, ContainerPort: 80, Protocol: "tcp"}, {HostPort: 8053, ContainerPort: 53, Protocol: "UDP"},
		{HostPort: 8081, ContainerPort: 80, Protocol: "tcp", HostIP: "192.0.2.9"},
	}
	all := []translation{masqueraded, publication{net.IPv4(10, 88, 0, 3), mappings}, publication{net.ParseIP("fd00:88::3"), mappings}}
	outward := func(name string, protocol uint8) flow {
		return aFlow(name, protocol, "10.88.0.3:1000 198.51.100.1:53", "198.51.100.1:53 10.88.0.3:1000")
	}
	inward := func(name string, protocol uint8, host string) flow {
		return aFlow(name, protocol, "198.51.100.1:1000 "+host, host+" 198.51.100.1:1000")
	}
	const begun = nl.TCP_CONNTRACK_SYN_SENT
	forgotten := []flow{
		outward("UDP to the outside", udp),
		outward("TCP to the outside", tcp).with(begun, false),
		aFlow("UDP to the outside by IPv6", udp, "[fd00:88::3]:1000 [2001:db8::9]:53", "[2001:db8::9]:53 [fd00:88::3]:1000"),
		aFlow("to a port of another allocation", udp, "10.88.0.3:1000 192.0.2.1:8088", "10.90.0.4:80 10.88.0.3:1000"),
		inward("TCP to the published port", tcp, "192.0.2.1:8080").with(begun, false),
		inward("TCP to the published port by IPv6", tcp, "[2001:db8::1]:8080").with(begun, false),
		inward("UDP to the published port", udp, "192.0.2.1:8053"),
		inward("UDP to the published port, answered", udp, "192.0.2.1:8053").with(0, true),
	}
	kept := []flow{
		outward("UDP, answered", udp).with(0, true),
		outward("TCP, established", tcp).with(nl.TCP_CONNTRACK_ESTABLISHED, true),
		outward("ICMP", unix.IPPROTO_ICMP),
		aFlow("masqueraded", udp, "10.88.0.3:1000 198.51.100.1:53", "198.51.100.1:53 192.0.2.1:1000"),
		aFlow("of another allocation", udp, "10.88.0.4:1000 198.51.100.1:53", "198.51.100.1:53 10.88.0.4:1000"),
		aFlow("of the host", udp, "192.0.2.1:1000 198.51.100.1:53", "198.51.100.1:53 192.0.2.1:1000"),
		aFlow("to the host", udp, "10.88.0.3:1000 192.0.2.1:53", "192.0.2.1:53 10.88.0.3:1000"),
		aFlow("in the network", udp, "10.88.0.3:1000 10.88.7.1:53", "10.88.7.1:53 10.88.0.3:1000"),
		aFlow("multicast", udp, "10.88.0.3:1000 239.1.1.1:53", "239.1.1.1:53 10.88.0.3:1000"),
		inward("to a port that is not published", tcp, "192.0.2.1:8082").with(begun, false),
		inward("to a port of another protocol", udp, "192.0.2.1:8080"),
		inward("to a port of another address of the host", tcp, "192.0.2.1:8081").with(begun, false),
		inward("through the host", tcp, "203.0.113.1:8080").with(begun, false),
		inward("established with the host", tcp, "192.0.2.1:8080").with(nl.TCP_CONNTRACK_ESTABLISHED, true),
		aFlow("published", tcp, "198.51.100.1:1000 192.0.2.1:8080", "10.88.0.3:80 198.51.100.1:1000").with(begun, false),
		aFlow("published UDP", udp, "198.51.100.1:1000 192.0.2.1:8053", "10.88.0.3:53 198.51.100.1:1000"),
	}
	table := &fakeFlows{flows: slices.Concat(forgotten, kept)}
	if err := forgetFlows(table, all); err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, f := range forgotten {
		want = append(want, string(f.message))
	}
	if !slices.Equal(table.forgotten, want) {
		t.Errorf("forgotten are\n%s\nwant\n%s", strings.Join(table.forgotten, "\n"), strings.Join(want, "\n"))
	}
}

// TestForgetFlowsFails: what cannot be forgotten goes on without a translation, which has to be said.
func TestForgetFlowsFails(t *testing.T) {
	scripted := errors.New("scripted")
	all := []translation{publication{net.IPv4(10, 88, 0, 3), []portMapping{{HostPort: 53, Protocol: "udp"}}}}
	flows := []flow{aFlow("", udp, "198.51.100.1:1000 192.0.2.1:53", "192.0.2.1:53 198.51.100.1:1000")}
	for _, table := range []*fakeFlows{{listErr: scripted}, {flows: flows, forgetErr: scripted}} {
		if err := forgetFlows(table, all); !errors.Is(err, scripted) {
			t.Errorf("the error is %v", err)
		}
	}
}

// TestParseFlow: a message of the kernel, and truncated ones.
func TestParseFlow(t *testing.T) {
	attribute := func(kind uint16, data ...byte) []byte { return nl.NewRtAttr(int(kind), data).Serialize() }
	nested := func(kind uint16, parts ...[]byte) []byte {
		return attribute(kind|unix.NLA_F_NESTED, slices.Concat(parts...)...)
	}
	direction := func(kind uint16, source, destination byte, ports ...byte) []byte {
		return nested(kind, nested(nl.CTA_TUPLE_IP, attribute(nl.CTA_IP_V4_SRC, 10, 0, 0, source), attribute(nl.CTA_IP_V4_DST, 10, 0, 0, destination)),
			nested(nl.CTA_TUPLE_PROTO, attribute(nl.CTA_PROTO_NUM, tcp), attribute(nl.CTA_PROTO_SRC_PORT, 1, ports[0]), attribute(nl.CTA_PROTO_DST_PORT, 1, ports[1])))
	}
	message := slices.Concat([]byte{unix.AF_INET, 0, 0, 0}, direction(nl.CTA_TUPLE_ORIG, 1, 2, 3, 4), direction(nl.CTA_TUPLE_REPLY, 5, 6, 7, 8),
		attribute(nl.CTA_STATUS, 0, 0, 0, 1<<1), nested(nl.CTA_PROTOINFO, nested(nl.CTA_PROTOINFO_TCP, attribute(nl.CTA_PROTOINFO_TCP_STATE, nl.TCP_CONNTRACK_SYN_SENT))))
	f, err := parseFlow(message)
	want := aFlow(string(message), tcp, "10.0.0.1:259 10.0.0.2:260", "10.0.0.5:263 10.0.0.6:264").with(nl.TCP_CONNTRACK_SYN_SENT, true)
	if err != nil || f.original != want.original || f.reply != want.reply || f.protocol != tcp || f.state != want.state || !f.answered {
		t.Errorf("the flow is %+v, %v, want %+v", f, err, want)
	}
	for _, cut := range [][]byte{nil, message[:6], message[:len(message)-1]} {
		if _, err := parseFlow(cut); err == nil {
			t.Errorf("%d bytes of a message are no error", len(cut))
		}
	}
}
