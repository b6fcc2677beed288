// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netfilter

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// TestFlowOfTheKernel: a message of the kernel, and truncated ones, which are no flow of TCP.
func TestFlowOfTheKernel(t *testing.T) {
	attribute := func(kind uint16, data ...byte) []byte { return nl.NewRtAttr(int(kind), data).Serialize() }
	nested := func(kind uint16, parts ...[]byte) []byte {
		return attribute(kind|unix.NLA_F_NESTED, slices.Concat(parts...)...)
	}
	direction := func(kind uint16, source, destination byte, ports ...byte) []byte {
		return nested(kind, nested(nl.CTA_TUPLE_IP, attribute(nl.CTA_IP_V4_SRC, 10, 0, 0, source), attribute(nl.CTA_IP_V4_DST, 10, 0, 0, destination)),
			nested(nl.CTA_TUPLE_PROTO, attribute(nl.CTA_PROTO_NUM, unix.IPPROTO_TCP), attribute(nl.CTA_PROTO_SRC_PORT, 1, ports[0]), attribute(nl.CTA_PROTO_DST_PORT, 1, ports[1])))
	}
	message := slices.Concat([]byte{unix.AF_INET, 0, 0, 0}, direction(nl.CTA_TUPLE_ORIG, 1, 2, 3, 4), direction(nl.CTA_TUPLE_REPLY, 5, 6, 7, 8),
		attribute(nl.CTA_STATUS, 0, 0, 0, 1<<1), nested(nl.CTA_PROTOINFO, nested(nl.CTA_PROTOINFO_TCP, attribute(nl.CTA_PROTOINFO_TCP_STATE, nl.TCP_CONNTRACK_SYN_SENT))))
	address := netip.MustParseAddr
	want := Flow{
		Original: Direction{address("10.0.0.1"), address("10.0.0.2"), 259, 260}, Reply: Direction{address("10.0.0.5"), address("10.0.0.6"), 263, 264},
		Protocol: unix.IPPROTO_TCP, IsAnswered: true, State: nl.TCP_CONNTRACK_SYN_SENT,
	}
	if got := newFlow(message); got != want {
		t.Errorf("the flow is %+v, want %+v", got, want)
	}
	for _, cut := range [][]byte{nil, message[:6], message[:20]} {
		if got := newFlow(cut); got != (Flow{}) {
			t.Errorf("%d bytes of a message are %+v", len(cut), got)
		}
	}
}
