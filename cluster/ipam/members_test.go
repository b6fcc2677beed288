// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ipam

import (
	"net/netip"
	"strings"
	"testing"
)

// TestMembers: what is said of the addresses of a piece is read again, and refused if it is of another pool, or has other addresses.
func TestMembers(t *testing.T) {
	c := mustParse(t, `{"pool": "p", "mode": "auto", "ranges": [{"subnet": "10.0.0.0/16"}, {"subnet": "fd00::/112"}], "blockSize": {"4": 24, "6": 124}}`)
	content := func(piece string, addresses ...string) MembersContent {
		m := MembersContent{Pool: "p", Instance: strings.Repeat("a", 32), Piece: netip.MustParsePrefix(piece), Groups: []MemberGroup{{Network: "n", Level: "none"}}}
		for _, a := range addresses {
			m.Groups[0].Addresses = append(m.Groups[0].Addresses, netip.MustParseAddr(a))
		}
		return m
	}
	other := content("10.0.1.64/26")
	other.Pool = "other"
	noInstance := content("10.0.1.64/26")
	noInstance.Instance = "x"
	for want, m := range map[string]MembersContent{
		"":                               content("10.0.1.64/26", "10.0.1.65", "10.0.1.127"),
		"is of the pool":                 other,
		"is of 10.0.1.128/26":            content("10.0.1.128/26"),
		"the address 10.0.1.128":         content("10.0.1.64/26", "10.0.1.65", "10.0.1.128"),
		"the address fd00::5":            content("10.0.1.64/26", "fd00::5"),
		"want 32 hexadecimal digits":     noInstance,
		"the address invalid IP":         {Pool: "p", Piece: netip.MustParsePrefix("10.0.1.64/26"), Groups: []MemberGroup{{Addresses: []netip.Addr{{}}}}},
		"the address ::ffff:10.0.1.65, ": content("10.0.1.64/26", "::ffff:10.0.1.65"),
	} {
		_, err := DecodeMembers(Encode(m), c, netip.MustParsePrefix("10.0.1.64/26"))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", m, err, want)
		}
	}
	for address, want := range map[string]string{"10.0.1.65": "10.0.1.64/26", "fd00::1015": "fd00::1010/124", "10.0.0.1": "", "10.1.0.1": ""} {
		piece, ok := c.PieceOf(netip.MustParseAddr(address))
		if ok != (want != "") || ok && piece.String() != want {
			t.Errorf("the piece of %s is %s, %t, want %q", address, piece, ok, want)
		}
	}
	for piece, want := range map[string]string{"10.0.1.64/26": "10.0.1.0/24", "fd00::1010/124": "fd00::1010/124", "10.0.1.0/24": "", "10.0.1.64/27": "", "10.1.0.64/26": ""} {
		block, ok := c.BlockOfPiece(netip.MustParsePrefix(piece))
		if ok != (want != "") || ok && block.String() != want {
			t.Errorf("the block of %s is %s, %t, want %q", piece, block, ok, want)
		}
	}
}
