// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package netfilter

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/allocnet/allocnet/internal/netns/netnstest"
	"github.com/allocnet/allocnet/internal/roottest"
	"github.com/allocnet/allocnet/internal/sandbox"
)

// TestRootForgetFlows: the flows that an address has begun, and those that it answers, are forgotten, and no others: if the kernel looks for them, and if they are
// listed. Of an address that the kernel cannot look for, it forgets none then.
func TestRootForgetFlows(t *testing.T) {
	roottest.Require(t)
	all := [][2]string{{"10.0.0.1", "10.0.0.2"}, {"10.0.0.2", "10.0.0.1"}, {"10.0.0.2", "10.0.0.3"}, {"10.0.0.3", "10.0.0.4"}, {"fd00::1", "fd00::2"}, {"fd00::3", "fd00::1"}, {"fd00::2", "fd00::3"}}
	gone := []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1"), netip.MustParseAddr("192.0.2.1")}
	want := []string{"10.0.0.2 10.0.0.3", "10.0.0.3 10.0.0.4", "fd00::2 fd00::3"}
	for name, forget := range map[string]func(s *Socket) error{
		"flushed, and the rest listed": func(s *Socket) error {
			return forgetListed(s, slices.DeleteFunc(slices.Clone(gone), func(a netip.Addr) bool { return flushFlows(s, a) == nil }))
		},
		"listed": func(s *Socket) error { return forgetListed(s, gone) },
		"either": func(s *Socket) error { return s.ForgetFlows(gone) },
	} {
		netnstest.Run(t, func() error {
			var commands []string
			for i, f := range all {
				commands = append(commands, fmt.Sprintf("conntrack -I -p udp -s %s -d %s --sport %d --dport 53 -t 600 -u SEEN_REPLY", f[0], f[1], 1000+i))
			}
			if err := sandbox.RunAll(commands...); err != nil {
				return err
			}
			s, err := Dial(t.Context())
			if err != nil {
				return err
			}
			defer s.Close()
			var left []string
			err = errors.Join(forget(s), ForgetEach(t.Context(), func(f Flow) bool {
				left = append(left, f.Original.Source.String()+" "+f.Original.Destination.String())
				return false
			}))
			if slices.Sort(left); !slices.Equal(left, want) {
				t.Errorf("%s: left are %q, want %q", name, left, want)
			}
			return err
		})
	}
}

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
