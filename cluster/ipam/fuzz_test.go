// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ipam

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

// FuzzParse: a configuration is refused, or all that follows from it is consistent.
func FuzzParse(f *testing.F) {
	for _, g := range geometries {
		f.Add([]byte(`{"type": "allocnet-ipam", "pool": "p", ` + g + `}`))
	}
	f.Add([]byte(`{"pool": "p", "blockSize": {"4": 30}, "routes": [{"dst": "0.0.0.0/0"}], "dns": {"nameservers": ["10.0.0.1"]}, "ranges": [{"subnet": "0.0.0.0/0"}, {"subnet": "::/0"}]}`))
	f.Add([]byte(`{"pool": "p", "cooldown": "1h", "probe": "eth0", "sticky": true, "maxReservedPerJob": 3, "maxBlocks": 4, "mode": "flat", "ranges": [{"subnet": "255.255.255.255/32"}]}`))
	f.Add([]byte(`{"pool": "p", "mode": "auto", "vxlan": {"id": 7, "port": 8472}, "ranges": [{"subnet": "10.0.0.0/16"}, {"subnet": "fd00::/64"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse(data)
		if err != nil {
			if !errors.Is(err, ErrInvalid) || c != nil && c.validate() == nil && c.Pool == "" {
				t.Errorf("the error is %v", err)
			}
			return
		}
		requireConsistent(t, c)
		content, err := DecodePool(Encode(c.Content()), c.Pool)
		if err != nil || content.Hash() != c.Hash() || content.Extends(c.Content()) {
			t.Errorf("the stored configuration is %+v, %v", content, err)
		}
		stored, err := content.Config()
		if err != nil || stored.Hash() != c.Hash() {
			t.Errorf("the configuration of the stored one is %+v, %v", stored, err)
		}
	})
}

// requireConsistent looks at the first and the last blocks of each family, and at the addresses
// at their borders.
func requireConsistent(t *testing.T, c *Config) {
	t.Helper()
	for _, f := range c.Families() {
		slots := c.Slots(f)
		count := slots.Count()
		for _, i := range []uint64{0, 1, count / 2, count - 1} {
			if i >= count {
				continue
			}
			b := slots.At(i)
			if got, ok := slots.Index(b); !ok || got != i {
				t.Fatalf("block %d is %s, which has the number %d, %v", i, b, got, ok)
			}
			if path, err := ParsePath(BlockPath(c.Pool, b)); err != nil || path.Block != b || path.Pool != c.Pool || len(BlockPath(c.Pool, b)) > 128 {
				t.Fatalf("the path of %s is %+v, %v", b, path, err)
			}
			offsets := slices.Collect(c.Offsets(b))
			if len(offsets) != c.Capacity(b) {
				t.Fatalf("block %s has %d addresses, and says %d", b, len(offsets), c.Capacity(b))
			}
			for _, offset := range []int{0, 1, len(offsets) / 2, len(offsets) - 1} {
				if offset >= 0 && offset < len(offsets) {
					requireUsable(t, c, b, offsets[offset])
				}
			}
		}
		seen := 0
		for a := range c.ReservedOf(f) {
			if c.Usable(a) || FamilyOf(a) != f {
				t.Fatalf("the reserved %s is in blocks, too", a)
			}
			if seen++; seen == 3 {
				break
			}
		}
	}
}

func requireUsable(t *testing.T, c *Config, b Block, offset int) {
	t.Helper()
	a := At(b, offset)
	block, ok := c.BlockOf(a)
	piece, inPiece := c.PieceOf(a)
	path := MembersPath(c.Pool, piece)
	if parsed, err := ParsePath(path); !inPiece || !piece.Contains(a) || err != nil || parsed.Piece != piece || len(path) > 128 {
		t.Fatalf("%s is in the piece %s, %t, whose path %s is %+v, %v", a, piece, inPiece, path, parsed, err)
	}
	if of, known := c.BlockOfPiece(piece); !known || of != b {
		t.Fatalf("the piece %s of %s is one of %s, %t", piece, b, of, known)
	}
	if assigned, err := c.Assign(a); !c.Usable(a) || c.IsReserved(a) || !ok || block != b || err != nil || !assigned.Address.Contains(assigned.Address.Addr()) {
		t.Fatalf("offset %d of %s is %s: usable %v, reserved %v, block %s, %v", offset, b, a, c.Usable(a), c.IsReserved(a), block, err)
	}
}

// FuzzContent: a content is refused, or is of the pool, and is the same again when it is stored.
func FuzzContent(f *testing.F) {
	c := mustParse(f, `{"pool": "p", "reserved": ["10.0.0.4/30"], "ranges": [{"subnet": "10.0.0.0/24"}, {"subnet": "fd00::/64"}]}`)
	host := Host{Instance: strings.Repeat("a", 32), NodeID: "n", Boot: "b"}
	f.Add(Encode(c.Content()))
	f.Add(Encode(BlockContent{Pool: "p", Block: netip.MustParsePrefix("10.0.0.64/26"), Host: host, ClaimID: "c", Claimed: time.Unix(1, 0).UTC()}))
	f.Add(Encode(AddressContent{Pool: "p", Address: netip.MustParseAddr("10.0.0.5"), State: Held, Host: host, Job: Job{Key: "k"}}))
	f.Add(Encode(NodeContent{Host: host, Nonce: "n"}))
	f.Add([]byte(`{"version":1,"checksum":"74234e98afe7498f","content":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if p, err := DecodePool(data, "p"); err == nil && p.Pool != "p" {
			t.Errorf("a pool of %+v", p)
		}
		if b, err := DecodeBlock(data, c); err == nil {
			again, err := DecodeBlock(Encode(b), c)
			if _, ok := c.Slots(FamilyOf(b.Block.Addr())).Index(b.Block); !ok || err != nil || again != b && again.Claimed.Equal(b.Claimed) && again.Block != b.Block {
				t.Errorf("a block %+v, and again %+v, %v", b, again, err)
			}
		}
		if a, err := DecodeAddress(data, c); err == nil {
			if again, err := DecodeAddress(Encode(a), c); !c.IsReserved(a.Address) || err != nil || again.Address != a.Address {
				t.Errorf("an address %+v, and again %+v, %v", a, again, err)
			}
		}
		if n, err := DecodeNode(data); err == nil && len(n.Host.Instance) != 32 {
			t.Errorf("an instance %+v", n)
		}
	})
}

// FuzzPath: a path is refused, or is the path of what it means.
func FuzzPath(f *testing.F) {
	for _, path := range []string{PoolPath("p"), BlockPath("p", netip.MustParsePrefix("10.0.0.64/26")), AddressPath("p", netip.MustParseAddr("fd00::1")), MembersPath("p", netip.MustParsePrefix("fd00::40/122")), NodePath(strings.Repeat("0", 32))} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		p, err := ParsePath(path)
		if err != nil {
			return
		}
		again := PoolPath(p.Pool)
		switch {
		case p.Instance != "":
			again = NodePath(p.Instance)
		case p.Block.IsValid():
			again = BlockPath(p.Pool, p.Block)
		case p.Piece.IsValid():
			again = MembersPath(p.Pool, p.Piece)
		case p.Address.IsValid():
			again = AddressPath(p.Pool, p.Address)
		}
		if again != path {
			t.Errorf("%q is %+v, whose path is %q", path, p, again)
		}
	})
}
