// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package filter

import (
	"encoding/hex"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/netfilter"
	"github.com/allocnet/allocnet/isolation"
)

const (
	addresses4 = "0a000002" + "0a000003"
	addresses6 = "20010db8000000000000000000000002" + "20010db8000000000000000000000003"
)

// TestReadPacket: of what senders make only what is there is read, whatever its end is.
func TestReadPacket(t *testing.T) {
	from4, to4 := netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("10.0.0.3")
	from6, to6 := netip.MustParseAddr("2001:db8::2"), netip.MustParseAddr("2001:db8::3")
	for _, test := range []struct {
		name      string
		etherType uint16
		packet    string
		want      isolation.DeniedFlow
	}{
		{"tcp", unix.ETH_P_IP, "4500002800000000" + "4006" + "0000" + addresses4 + "1f901538", isolation.DeniedFlow{From: from4, To: to4, Protocol: "tcp", Port: 5432}},
		{"udp with options", unix.ETH_P_IP, "4600002800000000" + "4011" + "0000" + addresses4 + "01010101" + "1f900035", isolation.DeniedFlow{From: from4, To: to4, Protocol: "udp", Port: 53}},
		{"echo", unix.ETH_P_IP, "4500002800000000" + "4001" + "0000" + addresses4 + "08000000", isolation.DeniedFlow{From: from4, To: to4, Protocol: "icmp"}},
		{"a further fragment", unix.ETH_P_IP, "45000028000000b9" + "4006" + "0000" + addresses4 + "1f901538", isolation.DeniedFlow{From: from4, To: to4, Protocol: "tcp"}},
		{"GRE", unix.ETH_P_IP, "4500002800000000" + "402f" + "0000" + addresses4 + "00000000", isolation.DeniedFlow{From: from4, To: to4, Protocol: "47"}},
		{"a header that ends", unix.ETH_P_IP, "4500002800000000" + "4006" + "0000" + addresses4 + "1f", isolation.DeniedFlow{From: from4, To: to4, Protocol: "tcp"}},
		{"a longer header than there is", unix.ETH_P_IP, "4f00002800000000" + "4006" + "0000" + addresses4 + "1f901538", isolation.DeniedFlow{From: from4, To: to4, Protocol: "tcp"}},
		{"sctp of IPv6", unix.ETH_P_IPV6, "6000000000008440" + addresses6 + "1f901538", isolation.DeniedFlow{From: from6, To: to6, Protocol: "sctp", Port: 5432}},
		{"behind options", unix.ETH_P_IPV6, "6000000000000040" + addresses6 + "3c00010400000000" + "1100010400000000" + "1f90003500000000", isolation.DeniedFlow{From: from6, To: to6, Protocol: "udp", Port: 53}},
		{"behind authentication", unix.ETH_P_IPV6, "6000000000003340" + addresses6 + "0604000000000000" + "00000000" + "000000000000000000000000" + "1f901538", isolation.DeniedFlow{From: from6, To: to6, Protocol: "tcp", Port: 5432}},
		{"a first fragment", unix.ETH_P_IPV6, "6000000000002c40" + addresses6 + "0600000100000009" + "1f901538", isolation.DeniedFlow{From: from6, To: to6, Protocol: "tcp", Port: 5432}},
		{"a further fragment of IPv6", unix.ETH_P_IPV6, "6000000000002c40" + addresses6 + "060005c800000009" + "1f901538", isolation.DeniedFlow{From: from6, To: to6, Protocol: "tcp"}},
		{"options that end", unix.ETH_P_IPV6, "6000000000000040" + addresses6 + "3cff010400000000", isolation.DeniedFlow{From: from6, To: to6, Protocol: "60"}},
		{"ARP", unix.ETH_P_ARP, "0001080006040001", isolation.DeniedFlow{Protocol: "arp"}},
		{"MPLS", 0x8847, addresses6, isolation.DeniedFlow{}},
	} {
		packet, err := hex.DecodeString(test.packet)
		if err != nil {
			t.Fatal(test.name, err)
		}
		var f isolation.DeniedFlow
		if readPacket(&f, test.etherType, packet); f != test.want {
			t.Errorf("%s: %+v, want %+v", test.name, f, test.want)
		}
		for end := range packet { // none of these is more than there is
			var part isolation.DeniedFlow
			if readPacket(&part, test.etherType, packet[:end]); part.From.IsValid() && part.From != test.want.From || part.Port != 0 && part.Port != test.want.Port {
				t.Errorf("%s until %d: %+v", test.name, end, part)
			}
		}
	}
}

// TestFlowOf: what others have told of in the group is left out, and what has no packet is told of all the same.
func TestFlowOf(t *testing.T) {
	for prefix, want := range map[string]isolation.Reason{"": "", "another one": "", logPrefix + "egress": isolation.ByEgress, logPrefix + "forged": isolation.Forged} {
		if f, ok := flowOf(&netfilter.Logged{Prefix: prefix}); f.Reason != want || ok != (want != "") {
			t.Errorf("%q: %+v, %t, want %q", prefix, f, ok, want)
		}
	}
}
