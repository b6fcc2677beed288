// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package flows

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// fakeFlows are flows of a host with the address 192.0.2.1.
type fakeFlows struct {
	flows     []Flow
	forgotten []string
	listErr   error
	forgetErr error
}

func (f *fakeFlows) list() ([]Flow, error) { return f.flows, f.listErr }

func (f *fakeFlows) forget(one Flow) error {
	f.forgotten = append(f.forgotten, string(one.message))
	return f.forgetErr
}

func (*fakeFlows) isLocal(address netip.Addr) bool {
	return address == netip.MustParseAddr("192.0.2.1") || address == netip.MustParseAddr("2001:db8::1")
}

// aFlow returns a flow whose name is its message. The directions are source and destination.
func aFlow(name string, protocol uint8, original, reply string) Flow {
	direction := func(text string) tuple {
		source, destination, _ := strings.Cut(text, " ")
		from, to := netip.MustParseAddrPort(source), netip.MustParseAddrPort(destination)
		return tuple{from.Addr(), to.Addr(), from.Port(), to.Port()}
	}
	return Flow{Original: direction(original), Reply: direction(reply), Protocol: protocol, message: []byte(name)}
}

func (f Flow) with(state uint8, answered bool) Flow {
	f.state, f.answered = state, answered
	return f
}

const (
	tcp = unix.IPPROTO_TCP
	udp = unix.IPPROTO_UDP
)

// fakeTranslation wants all flows with one of its keys.
type fakeTranslation []Key

func (t fakeTranslation) Keys() []Key { return t }

func (fakeTranslation) Wants(f Flow, isLocal func(netip.Addr) bool) bool {
	return f.Original.Source.Is4() || isLocal(f.Original.Destination)
}

// TestForget: those that began while rules were missing, and no others.
func TestForget(t *testing.T) {
	all := []Translation{
		fakeTranslation{{Source: netip.MustParseAddr("10.88.0.3")}, {Source: netip.MustParseAddr("fd00:88::3")}},
		fakeTranslation{{Port: 8080, Protocol: tcp}, {Port: 8053, Protocol: udp}},
	}
	outward := func(name string, protocol uint8) Flow {
		return aFlow(name, protocol, "10.88.0.3:1000 198.51.100.1:53", "198.51.100.1:53 10.88.0.3:1000")
	}
	inward := func(name string, protocol uint8, host string) Flow {
		return aFlow(name, protocol, "198.51.100.1:1000 "+host, host+" 198.51.100.1:1000")
	}
	const begun = nl.TCP_CONNTRACK_SYN_SENT
	forgotten := []Flow{
		outward("UDP to the outside", udp),
		outward("UDP, answered", udp).with(0, true), // the translation tells
		outward("TCP to the outside", tcp).with(begun, false),
		aFlow("UDP to the host by IPv6", udp, "[fd00:88::3]:1000 [2001:db8::1]:53", "[2001:db8::1]:53 [fd00:88::3]:1000"),
		inward("TCP to the published port", tcp, "192.0.2.1:8080").with(begun, false),
		inward("UDP to the published port", udp, "192.0.2.1:8053"),
	}
	kept := []Flow{
		outward("TCP, established", tcp).with(nl.TCP_CONNTRACK_ESTABLISHED, true),
		outward("ICMP", unix.IPPROTO_ICMP),
		aFlow("of another allocation", udp, "10.88.0.4:1000 198.51.100.1:53", "198.51.100.1:53 10.88.0.4:1000"),
		aFlow("to the outside by IPv6", udp, "[fd00:88::3]:1000 [2001:db8::9]:53", "[2001:db8::9]:53 [fd00:88::3]:1000"),
		inward("to a port of another protocol", udp, "192.0.2.1:8080"),
		inward("established with the host", tcp, "192.0.2.1:8080").with(nl.TCP_CONNTRACK_ESTABLISHED, true),
	}
	table := &fakeFlows{flows: slices.Concat(forgotten, kept)}
	if err := forget(table, all); err != nil {
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

// TestBegins: what has no answer yet.
func TestBegins(t *testing.T) {
	for name, test := range map[string]struct {
		flow Flow
		want bool
	}{
		"UDP": {Flow{Protocol: udp}, true}, "UDP, answered": {Flow{Protocol: udp}.with(0, true), false},
		"TCP": {Flow{Protocol: tcp}.with(nl.TCP_CONNTRACK_SYN_SENT, false), true}, "TCP, established": {Flow{Protocol: tcp}.with(nl.TCP_CONNTRACK_ESTABLISHED, true), false},
		"ICMP": {Flow{Protocol: unix.IPPROTO_ICMP}, false},
	} {
		if got := test.flow.Begins(); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestForgetFails: what cannot be forgotten goes on without a translation, which has to be said.
func TestForgetFails(t *testing.T) {
	scripted := errors.New("scripted")
	all := []Translation{fakeTranslation{{Port: 53, Protocol: udp}}}
	flows := []Flow{aFlow("", udp, "198.51.100.1:1000 192.0.2.1:53", "192.0.2.1:53 198.51.100.1:1000")}
	for _, table := range []*fakeFlows{{listErr: scripted}, {flows: flows, forgetErr: scripted}} {
		if err := forget(table, all); !errors.Is(err, scripted) {
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
	if err != nil || f.Original != want.Original || f.Reply != want.Reply || f.Protocol != tcp || f.state != want.state || !f.answered {
		t.Errorf("the flow is %+v, %v, want %+v", f, err, want)
	}
	for _, cut := range [][]byte{nil, message[:6], message[:len(message)-1]} {
		if _, err := parseFlow(cut); err == nil {
			t.Errorf("%d bytes of a message are no error", len(cut))
		}
	}
}
