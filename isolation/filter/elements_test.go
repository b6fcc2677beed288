// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package filter

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/allocnet/allocnet/isolation"
)

// TestPartlyKnown: an attachment that is recorded before its interface is made has keys of the right length, or none: one that the kernel refuses would
// keep those of all others from being made. What can be guarded is.
func TestPartlyKnown(t *testing.T) {
	full := Member{
		Member: isolation.Member{
			ID: strings.Repeat("é", 200), Network: "n", Job: "web", Link: "br0", Ingress: isolation.Narrowing{}, Egress: isolation.Narrowing{}, Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("::ffff:10.0.0.2"), netip.MustParseAddr("2001:db8::1"), {}},
		},
		End: "veth1", Bridge: "br0", MAC: net.HardwareAddr{2, 0, 0, 0, 0, 1}, Antispoof: true,
	}
	selector := isolation.Selector{Job: "web"}
	r := newRuleset(isolation.Rules{Allow: []isolation.Allow{{From: selector, To: selector}}, Egress: []isolation.Egress{{From: selector, To: selector}}}, "")
	for _, l := range []isolation.Level{isolation.None, isolation.Network, isolation.Strict} {
		for lost := range 32 {
			m := full
			m.Level = l
			for i, lose := range []func(){func() { m.End = "" }, func() { m.MAC = nil }, func() { m.Addresses = nil }, func() { m.Link = "" }, func() { m.Bridge = "" }} {
				if lost>>i&1 != 0 {
					lose()
				}
			}
			h := compile(State{r.Rules, []Member{m}}, nil, map[string]net.HardwareAddr{"br0": {2, 0, 0, 0, 0, 9}})
			isGuarded := false
			for _, p := range h.of[m.ID] {
				if want := keyLength(p.set); len(p.Key) != want || len(p.Comment) > 127 {
					t.Errorf("%v: the key of %s has %d bytes, want %d, and the comment %d", m, p.set, len(p.Key), want, len(p.Comment))
				}
				isGuarded = isGuarded || p.set == guarded
			}
			if isGuarded != (m.End != "") {
				t.Errorf("%v: it is guarded: %t", m, isGuarded)
			}
		}
	}
}

// keyLength is that of the keys of a set.
func keyLength(set string) int {
	switch {
	case set == macs:
		return 16 + 8
	case set == senders+ip4.suffix:
		return 16 + 8 + 4
	case set == senders+ip6.suffix:
		return 16 + 8 + 16
	case set == frames+ip4.suffix:
		return 16 + 8 + 4
	case set == frames+ip6.suffix:
		return 16 + 8 + 16
	case set == near:
		return 4
	case set == neighbours || set == neighboursApart:
		return 6
	case set == targets || strings.HasSuffix(set, ip6.suffix):
		return 16 + 16
	case strings.HasSuffix(set, ip4.suffix):
		return 16 + 4
	}
	return 16
}
