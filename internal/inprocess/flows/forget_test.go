// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package flows

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/netfilter"
)

// isLocal tells whether an address is one of a host with two.
func isLocal(address netip.Addr) bool {
	return address == netip.MustParseAddr("192.0.2.1") || address == netip.MustParseAddr("2001:db8::1")
}

// aFlow returns a flow. The directions are source and destination.
func aFlow(protocol uint8, original, reply string) netfilter.Flow {
	direction := func(text string) netfilter.Direction {
		source, destination, _ := strings.Cut(text, " ")
		from, to := netip.MustParseAddrPort(source), netip.MustParseAddrPort(destination)
		return netfilter.Direction{Source: from.Addr(), Destination: to.Addr(), SourcePort: from.Port(), DestinationPort: to.Port()}
	}
	return netfilter.Flow{Original: direction(original), Reply: direction(reply), Protocol: protocol}
}

func with(f netfilter.Flow, state uint8, answered bool) netfilter.Flow {
	f.State, f.IsAnswered = state, answered
	return f
}

const (
	tcp = unix.IPPROTO_TCP
	udp = unix.IPPROTO_UDP
)

// fakeTranslation wants all flows with one of its keys.
type fakeTranslation []Key

func (t fakeTranslation) Keys() []Key { return t }

func (fakeTranslation) Wants(f netfilter.Flow, isLocal func(netip.Addr) bool) bool {
	return f.Original.Source.Is4() || isLocal(f.Original.Destination)
}

// TestForget: those that began while rules were missing, and no others.
func TestForget(t *testing.T) {
	all := translationsOf([]Translation{
		fakeTranslation{{Source: netip.MustParseAddr("10.88.0.3")}, {Source: netip.MustParseAddr("fd00:88::3")}},
		fakeTranslation{{Port: 8080, Protocol: tcp}, {Port: 8053, Protocol: udp}},
	})
	outward := func(protocol uint8) netfilter.Flow {
		return aFlow(protocol, "10.88.0.3:1000 198.51.100.1:53", "198.51.100.1:53 10.88.0.3:1000")
	}
	inward := func(protocol uint8, host string) netfilter.Flow {
		return aFlow(protocol, "198.51.100.1:1000 "+host, host+" 198.51.100.1:1000")
	}
	const begun = nl.TCP_CONNTRACK_SYN_SENT
	for want, flows := range map[bool]map[string]netfilter.Flow{
		true: {
			"UDP to the outside":        outward(udp),
			"UDP, answered":             with(outward(udp), 0, true), // the translation tells
			"TCP to the outside":        with(outward(tcp), begun, false),
			"UDP to the host by IPv6":   aFlow(udp, "[fd00:88::3]:1000 [2001:db8::1]:53", "[2001:db8::1]:53 [fd00:88::3]:1000"),
			"TCP to the published port": with(inward(tcp, "192.0.2.1:8080"), begun, false),
			"UDP to the published port": inward(udp, "192.0.2.1:8053"),
		},
		false: {
			"TCP, established":              with(outward(tcp), nl.TCP_CONNTRACK_ESTABLISHED, true),
			"ICMP":                          outward(unix.IPPROTO_ICMP),
			"of another allocation":         aFlow(udp, "10.88.0.4:1000 198.51.100.1:53", "198.51.100.1:53 10.88.0.4:1000"),
			"to the outside by IPv6":        aFlow(udp, "[fd00:88::3]:1000 [2001:db8::9]:53", "[2001:db8::9]:53 [fd00:88::3]:1000"),
			"to a port of another protocol": inward(udp, "192.0.2.1:8080"),
			"established with the host":     with(inward(tcp, "192.0.2.1:8080"), nl.TCP_CONNTRACK_ESTABLISHED, true),
		},
	} {
		for name, f := range flows {
			if got := all.want(f, isLocal); got != want {
				t.Errorf("%s: %t", name, got)
			}
		}
	}
}

// TestBegins: what has no answer yet.
func TestBegins(t *testing.T) {
	of := func(protocol, state uint8, answered bool) netfilter.Flow {
		return with(netfilter.Flow{Protocol: protocol}, state, answered)
	}
	for name, test := range map[string]struct {
		flow netfilter.Flow
		want bool
	}{
		"UDP": {of(udp, 0, false), true}, "UDP, answered": {of(udp, 0, true), false},
		"TCP": {of(tcp, nl.TCP_CONNTRACK_SYN_SENT, false), true}, "TCP, established": {of(tcp, nl.TCP_CONNTRACK_ESTABLISHED, true), false},
		"ICMP": {of(unix.IPPROTO_ICMP, 0, false), false},
	} {
		if got := Begins(test.flow); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
