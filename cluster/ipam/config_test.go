// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ipam

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func mustParse(t testing.TB, config string) *Config {
	t.Helper()
	c, err := Parse([]byte(config))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestDefaults: what is missing is as the documentation says.
func TestDefaults(t *testing.T) {
	c := mustParse(t, `{"type": "allocnet-ipam", "pool": "vlan100", "ranges": [{"subnet": "10.91.0.0/16"}, {"subnet": "fd91::/64"}]}`)
	got := strings.TrimSpace(fmt.Sprintln(c.Ranges, c.BlockSize, c.Cooldown, c.DataDir, c.StateDir, c.ConfigDir, c.Families()))
	want := "[{10.91.0.0/16 10.91.0.1 10.91.255.254 10.91.0.1 []} {fd91::/64 fd91::1 fd91::ffff:ffff:ffff:ffff fd91::1 []}] {26 122} 1m0s /var/lib/cni/networks /var/lib/allocnet /etc/allocnet.d [4 6]"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestParseErrors: each names the field, its value, and what would be right.
func TestParseErrors(t *testing.T) {
	subnet := `"ranges": [{"subnet": "10.0.0.0/24"}]`
	for config, want := range map[string]string{
		`{`:                                 `ipam:1:1: invalid JSON: the text ends before it is complete`,
		`{"pool": 5}`:                       `ipam:1:10: pool is a JSON number, want string`,
		`{} {}`:                             `ipam: want one JSON value and nothing after it`,
		`{"pol": "p"}`:                      `unknown field "pol"`,
		`{` + subnet + `}`:                  `pool is "": want a name`,
		`{"pool": "nodes", ` + subnet + `}`: `pool is "nodes": want a name of a-z, 0-9 and -, other than nodes`,
		`{"pool": "P", ` + subnet + `}`:     `pool is "P"`,
		`{"pool": "p"}`:                     `ranges is "": want at least one`,
		`{"pool": "p", "ranges": [{}]}`:     `ranges[0].subnet is ""`,
		`{"pool": "p", "ranges": [{"subnet": "10.0.0.1/24"}]}`:                                                                              `ranges[0].subnet is "10.0.0.1/24": want 10.0.0.0/24`,
		`{"pool": "p", "ranges": [{"subnet": "::ffff:10.0.0.0/120"}]}`:                                                                      `ranges[0].subnet is "::ffff:10.0.0.0/120": want a subnet such as`,
		`{"pool": "p", "ranges": [{"subnet": "10.0.0.0/24", "rangeStart": "10.0.1.1"}]}`:                                                    `ranges[0].rangeStart is "10.0.1.1": want an address of 10.0.0.0/24`,
		`{"pool": "p", "ranges": [{"subnet": "10.0.0.0/24", "rangeStart": "10.0.0.9", "rangeEnd": "10.0.0.8"}]}`:                            `ranges[0].rangeEnd is "10.0.0.8": want an address of 10.0.0.0/24, and not before 10.0.0.9`,
		`{"pool": "p", "ranges": [{"subnet": "fe80::/64", "rangeStart": "fe80::1%eth0"}]}`:                                                  `ranges[0].rangeStart is "fe80::1%eth0": want an address`,
		`{"pool": "p", "ranges": [{"subnet": "10.0.0.0/24", "gateway": "fd00::1"}]}`:                                                        `ranges[0].gateway is "fd00::1": want an address of the family`,
		`{"pool": "p", "ranges": [{"subnet": "10.0.0.0/24", "exclude": ["10.0.1.0"]}]}`:                                                     `ranges[0].exclude[0] is "10.0.1.0/32": want a prefix in 10.0.0.0/24`,
		`{"pool": "p", "ranges": [{"subnet": "10.0.0.0/24", "exclude": ["10.0.0.1/24"]}]}`:                                                  `ranges[0].exclude[0] is "10.0.0.1/24"`,
		`{"pool": "p", "ranges": [{"subnet": "10.0.0.0/24"}, {"subnet": "10.0.0.128/25"}]}`:                                                 `ranges[1] is "10.0.0.128/25": want a subnet that does not overlap 10.0.0.0/24`,
		`{"pool": "p", "ranges": [{"subnet": "10.0.0.0/24", "rangeEnd": "10.0.0.9"}, {"subnet": "10.0.0.0/24", "rangeStart": "10.0.0.9"}]}`: `ranges[1] is "10.0.0.9-10.0.0.254": want no address of 10.0.0.1-10.0.0.9`,
		`{"pool": "p", "reserved": ["10.0.1.0/28"], ` + subnet + `}`:                                                                        `reserved[0] is "10.0.1.0/28": want a prefix in the subnet of a range`,
		`{"pool": "p", "reserved": ["10.0.0.16/28", "10.0.0.17"], ` + subnet + `}`:                                                          `reserved[1] is "10.0.0.17/32": want a prefix that does not overlap`,
		`{"pool": "p", "reserved": ["fd00::/64"], "ranges": [{"subnet": "fd00::/48"}]}`:                                                     `reserved[0] is "fd00::/64": want at least /112`,
		`{"pool": "p", "blockSize": {"5": 26}, ` + subnet + `}`:                                                                             `blockSize is "5": want 4 and 6`,
		`{"pool": "p", "blockSize": {"4": 0}, ` + subnet + `}`:                                                                              `blockSize is "0"`,
		`{"pool": "p", "blockSize": {"4": 23}, ` + subnet + `}`:                                                                             `blockSize is "23": want at least the 24 of 10.0.0.0/24`,
		`{"pool": "p", "blockSize": {"4": 33}, ` + subnet + `}`:                                                                             `blockSize is "33": want 16 to 32 for IPv4`,
		`{"pool": "p", "blockSize": {"6": 111}, "ranges": [{"subnet": "fd00::/64"}]}`:                                                       `blockSize is "111": want 112 to 128 for IPv6`,
		`{"pool": "p", "cooldown": "1", ` + subnet + `}`:                                                                                    `cooldown is "1": want a duration such as 60s`,
		`{"pool": "p", "cooldown": "-1s", ` + subnet + `}`:                                                                                  `cooldown is "-1s": want a duration`,
		`{"pool": "p", "probe": "a/b", ` + subnet + `}`:                                                                                     `probe is "a/b": want the name of an interface`,
		`{"pool": "p", "maxReservedPerJob": -1, ` + subnet + `}`:                                                                            `maxReservedPerJob is "-1": want a number`,
		`{"pool": "p", "maxBlocks": -1, ` + subnet + `}`:                                                                                    `maxBlocks is "-1": want a number of blocks, or 0 for 20`,
		`{"pool": "p", "dataDir": "x", ` + subnet + `}`:                                                                                     `dataDir is "x": want an absolute path`,
	} {
		_, err := Parse([]byte(config))
		if !errors.Is(err, ErrInvalid) || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%s\n got %v\nwant %s", config, err, want)
		}
	}
}

// TestHash: it covers what hosts have to agree on, in whatever words, and nothing else.
func TestHash(t *testing.T) {
	base := `"pool": "p", "ranges": [{"subnet": "10.0.0.0/24", "exclude": ["10.0.0.9"]}]`
	hash := mustParse(t, `{`+base+`}`).Hash()
	for config, same := range map[string]bool{
		`"cooldown": "1s", "sticky": true, "maxReservedPerJob": 1, "maxBlocks": 3, "probe": "eth0", "dataDir": "/x", ` + base:                                                               true,
		`"pool": "p", "blockSize": {"4": 26}, "ranges": [{"subnet": "10.0.0.0/24", "rangeStart": "10.0.0.1", "rangeEnd": "10.0.0.254", "gateway": "10.0.0.1", "exclude": ["10.0.0.9/32"]}]`: true,
		`"blockSize": {"4": 27}, ` + base:                                            false,
		`"blockSize": {"6": 121}, ` + base:                                           false,
		`"reserved": ["10.0.0.4"], ` + base:                                          false,
		strings.Replace(base, `"p"`, `"q"`, 1):                                       false,
		strings.Replace(base, "0.9", "0.8", 1):                                       false,
		strings.Replace(base, "/24", "/23", 1):                                       false,
		strings.Replace(base, `"exclude"`, `"rangeEnd": "10.0.0.99", "exclude"`, 1):  false,
		strings.Replace(base, `"exclude"`, `"rangeStart": "10.0.0.3", "exclude"`, 1): false,
		strings.Replace(base, `"exclude"`, `"gateway": "10.0.0.3", "exclude"`, 1):    false,
	} {
		if got := mustParse(t, `{`+config+`}`).Hash() == hash; got != same {
			t.Errorf("%s: the same hash is %v, want %v", config, got, same)
		}
	}
}

// TestExtends: ranges may be appended, and reserved prefixes of which the other configuration
// gives out nothing. Nothing else may change.
func TestExtends(t *testing.T) {
	content := func(config string) PoolContent { return mustParse(t, `{"pool": "p", `+config+`}`).Content() }
	one := content(`"ranges": [{"subnet": "10.0.0.0/24"}]`)
	for config, want := range map[string]bool{
		`"ranges": [{"subnet": "10.0.0.0/24"}]`:                                                      false,
		`"ranges": [{"subnet": "10.0.0.0/24"}, {"subnet": "10.1.0.0/24"}]`:                           true,
		`"ranges": [{"subnet": "10.1.0.0/24"}, {"subnet": "10.0.0.0/24"}]`:                           false,
		`"ranges": [{"subnet": "10.0.0.0/24"}, {"subnet": "10.1.0.0/24"}], "reserved": ["10.1.0.2"]`: true,
		`"ranges": [{"subnet": "10.0.0.0/24"}, {"subnet": "10.1.0.0/24"}], "reserved": ["10.0.0.2"]`: false,
		`"ranges": [{"subnet": "10.0.0.0/24"}], "reserved": ["10.0.0.2"]`:                            false,
	} {
		if got := content(config).Extends(one); got != want {
			t.Errorf("%s extends one range: %v, want %v", config, got, want)
		}
	}
	beside := func(reserved string) PoolContent {
		return content(`"ranges": [{"subnet": "10.0.0.0/24", "rangeStart": "10.0.0.64"}], "reserved": [` + reserved + `]`)
	}
	before := beside(`"10.0.0.0/28"`)
	for reserved, want := range map[string]bool{
		`"10.0.0.0/28", "10.0.0.32/27"`: true,
		`"10.0.0.0/28", "10.0.0.64/28"`: false,
		`"10.0.0.32/27", "10.0.0.0/28"`: false,
		`"10.0.0.0/27"`:                 false,
		`"10.0.0.0/28"`:                 false,
	} {
		if got := beside(reserved).Extends(before); got != want {
			t.Errorf("reserved %s extends %v: %v, want %v", reserved, before.Reserved, got, want)
		}
	}
}

// geometries are configurations with ranges of all sizes, and borders in all places.
var geometries = []string{
	`"ranges": [{"subnet": "10.0.0.0/24"}]`,
	`"ranges": [{"subnet": "10.0.0.0/28"}]`,
	`"blockSize": {"4": 32}, "ranges": [{"subnet": "10.0.0.0/29"}]`,
	`"ranges": [{"subnet": "10.0.0.0/30"}]`,
	`"ranges": [{"subnet": "10.0.0.0/31"}]`,
	`"ranges": [{"subnet": "10.0.0.7/32"}]`,
	`"ranges": [{"subnet": "255.255.255.192/26"}]`,
	`"ranges": [{"subnet": "0.0.0.0/26"}]`,
	`"ranges": [{"subnet": "fd00::/126"}]`,
	`"ranges": [{"subnet": "fd00::/127"}]`,
	`"ranges": [{"subnet": "fd00::7/128"}]`,
	`"ranges": [{"subnet": "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ff00/120"}]`,
	`"ranges": [{"subnet": "fd00::/120", "rangeStart": "fd00::20", "rangeEnd": "fd00::c1", "gateway": "fd00::30"}]`,
	`"ranges": [{"subnet": "fd00::ffff:ffff:ffff:ff00/120"}, {"subnet": "fd00::1:0:0:0:0/120"}]`,
	`"ranges": [{"subnet": "10.0.0.0/24", "rangeStart": "10.0.0.30", "rangeEnd": "10.0.0.200"}]`,
	`"ranges": [{"subnet": "10.0.0.0/24", "rangeStart": "10.0.0.30", "rangeEnd": "10.0.0.31"}]`,
	`"ranges": [{"subnet": "10.0.0.0/24", "rangeEnd": "10.0.0.20"}, {"subnet": "10.0.0.0/24", "rangeStart": "10.0.0.40"}]`,
	`"ranges": [{"subnet": "10.0.0.0/24", "rangeEnd": "10.0.0.20"}, {"subnet": "10.0.0.0/24", "rangeStart": "10.0.0.200"}, {"subnet": "10.0.0.0/24", "rangeStart": "10.0.0.21", "rangeEnd": "10.0.0.199"}]`,
	`"ranges": [{"subnet": "10.0.0.0/24", "rangeStart": "10.0.0.70", "rangeEnd": "10.0.0.71"}, {"subnet": "10.0.0.0/24", "rangeStart": "10.0.0.72"}, {"subnet": "10.0.0.0/24", "rangeEnd": "10.0.0.69"}]`,
	`"ranges": [{"subnet": "10.0.0.0/24", "exclude": ["10.0.0.60/30", "10.0.0.62/31", "10.0.0.64/26", "10.0.0.255"]}]`,
	`"ranges": [{"subnet": "10.0.0.0/24", "gateway": "10.0.0.100"}], "reserved": ["10.0.0.96/28", "10.0.0.0/29"]`,
	`"ranges": [{"subnet": "10.0.0.0/24", "rangeStart": "10.0.0.100"}], "reserved": ["10.0.0.0/28"]`,
	`"ranges": [{"subnet": "10.0.1.0/24", "gateway": "10.9.9.9"}, {"subnet": "10.0.0.0/24"}, {"subnet": "fd00::/121"}]`,
	`"blockSize": {"4": 24, "6": 120}, "ranges": [{"subnet": "10.0.0.0/23"}, {"subnet": "fd00::/120"}]`,
}

// allAddresses returns every address of the subnets, in order.
func allAddresses(c *Config) (all []netip.Addr) {
	for _, r := range c.Ranges {
		for a := r.Subnet.Addr(); a.IsValid() && r.Subnet.Contains(a); a = a.Next() {
			if !slices.Contains(all, a) {
				all = append(all, a)
			}
		}
	}
	return all
}

// simplyUsable decides in the words of the documentation, address by address.
func simplyUsable(c *Config, a netip.Addr) bool {
	inRange := false
	for _, r := range c.Ranges {
		inRange = inRange || r.Start.Compare(a) <= 0 && a.Compare(r.End) <= 0 && a.BitLen() == r.Start.BitLen()
		host := r.Subnet.Addr().BitLen() - r.Subnet.Bits()
		isLast := a == LastOf(r.Subnet)
		if a == r.Gateway || host >= 2 && (a == r.Subnet.Addr() || a.Is4() && isLast) {
			return false
		}
		for _, p := range r.Exclude {
			if p.Contains(a) {
				return false
			}
		}
	}
	for _, p := range c.Reserved {
		if p.Contains(a) {
			return false
		}
	}
	return inRange
}

// TestGeometry: for every address of many configurations, what is computed is what counting says.
func TestGeometry(t *testing.T) {
	for _, text := range geometries {
		t.Run(text, func(t *testing.T) {
			c := mustParse(t, `{"pool": "p", `+text+`}`)
			usable := map[Block][]int{}
			for _, a := range allAddresses(c) {
				want := simplyUsable(c, a)
				if got := c.Usable(a); got != want {
					t.Errorf("%s is usable: %v, want %v", a, got, want)
				}
				block, ok := c.BlockOf(a)
				if want && !ok {
					t.Errorf("%s has no block", a)
				}
				offset, inside := Offset(block, a)
				if !inside || At(block, offset) != a {
					t.Errorf("%s has the offset %d of %s, which is %s", a, offset, block, At(block, offset))
				}
				if want {
					usable[block] = append(usable[block], offset)
				}
			}
			requireBlocks(t, c, usable)
		})
	}
}

// requireBlocks compares all blocks with their usable offsets.
func requireBlocks(t *testing.T, c *Config, usable map[Block][]int) {
	t.Helper()
	seen := map[Block]bool{}
	for _, f := range c.Families() {
		slots := c.Slots(f)
		for i := range slots.Count() {
			b := slots.At(i)
			if got, ok := slots.Index(b); !ok || got != i || seen[b] {
				t.Errorf("block %d is %s, which has the number %d, %v; seen before: %v", i, b, got, ok, seen[b])
			}
			seen[b] = true
			if got := slices.Collect(c.Offsets(b)); !slices.Equal(got, usable[b]) || c.Capacity(b) != len(got) {
				t.Errorf("block %s has %v, capacity %d, want %v", b, got, c.Capacity(b), usable[b])
			}
			if name, err := parseBlockName(BlockName(b)); err != nil || name != b {
				t.Errorf("block %s is %s by its name, %v", b, name, err)
			}
		}
	}
	for b := range usable {
		if !seen[b] {
			t.Errorf("block %s has usable addresses and no number", b)
		}
	}
}

// TestForeignBlocks: prefixes that are no block of the pool have no number.
func TestForeignBlocks(t *testing.T) {
	c := mustParse(t, `{"pool": "p", "ranges": [{"subnet": "10.0.0.0/24", "rangeStart": "10.0.0.70", "rangeEnd": "10.0.0.180"}, {"subnet": "fd00::/64"}]}`)
	for _, text := range []string{"10.0.0.0/26", "10.0.0.192/26", "10.0.0.64/27", "10.0.0.64/25", "10.0.1.64/26", "9.255.255.192/26", "fd01::/122", "fd00::/121", "::/122", "fcff:ffff:ffff:ffff:ffff:ffff:ffff:ffc0/122"} {
		b := netip.MustParsePrefix(text)
		if i, ok := c.Slots(FamilyOf(b.Addr())).Index(b); ok {
			t.Errorf("%s is block %d", b, i)
		}
	}
	for _, text := range []string{"10.0.0.63", "10.0.1.70", "fd01::1", "::ffff:10.0.0.70"} {
		a := netip.MustParseAddr(text)
		if b, ok := c.BlockOf(a); ok {
			t.Errorf("%s is in the block %s", a, b)
		}
	}
}

// TestLargeRanges: the number of blocks of a large subnet is right, or as many as can be counted.
func TestLargeRanges(t *testing.T) {
	for subnet, want := range map[string]uint64{
		"10.0.0.0/8": 1 << 18, "fd00::/112": 1 << 10, "fd00::/90": 1 << 32, "fd00::/74": 1 << 48, "fd00::/64": maxSlots, "fd00::/8": maxSlots, "::/0": maxSlots,
	} {
		c := mustParse(t, fmt.Sprintf(`{"pool": "p", "ranges": [{"subnet": %q}, {"subnet": "192.168.0.0/24"}]}`, subnet))
		s := c.Slots(FamilyOf(netip.MustParsePrefix(subnet).Addr()))
		count := s.Count()
		if s.At(count-1).Addr().Is4() && s.size == 26 && count == want+4 {
			count -= 4
		}
		if count != want {
			t.Errorf("%s has %d blocks, want %d", subnet, count, want)
		}
		for _, i := range []uint64{0, 1, count / 3, count - 1} {
			b := s.At(i)
			if got, ok := s.Index(b); !ok || got != i || !netip.MustParsePrefix(subnet).Contains(b.Addr()) {
				t.Errorf("%s: block %d is %s, which has the number %d, %v", subnet, i, b, got, ok)
			}
		}
		if b, ok := c.BlockOf(LastOf(netip.MustParsePrefix(subnet)).Prev()); ok != (want < maxSlots || subnet == "fd00::/74") {
			t.Errorf("%s: the last address has a block: %v %v", subnet, b, ok)
		}
	}
}

// TestRangeOf: an attachment gets the prefix length and the gateway of its range; a reserved
// address beside the ranges those of its subnet.
func TestRangeOf(t *testing.T) {
	c := mustParse(t, `{"pool": "p", "reserved": ["10.0.0.200/29"], "ranges": [
		{"subnet": "10.0.0.0/24", "rangeEnd": "10.0.0.20"}, {"subnet": "10.0.0.0/24", "rangeStart": "10.0.0.40", "rangeEnd": "10.0.0.60", "gateway": "10.0.0.250"},
		{"subnet": "fd00::/127"}]}`)
	for address, want := range map[string]string{
		"10.0.0.3": "10.0.0.3/24 10.0.0.1", "10.0.0.41": "10.0.0.41/24 10.0.0.250", "10.0.0.201": "10.0.0.201/24 10.0.0.1", "fd00::1": "fd00::1/127 invalid IP",
	} {
		a, err := c.Assign(netip.MustParseAddr(address))
		if got := fmt.Sprint(a.Address, a.Gateway); err != nil || got != want {
			t.Errorf("%s is %q, %v, want %s", address, got, err, want)
		}
	}
	if a, err := c.Assign(netip.MustParseAddr("10.1.0.1")); !errors.Is(err, ErrInvalid) {
		t.Errorf("an address beside the pool is %v, %v", a, err)
	}
}

// TestReserved: they are in order, and those that are never given out are not reserved.
func TestReserved(t *testing.T) {
	c := mustParse(t, `{"pool": "p", "reserved": ["10.0.0.0/30", "fd00::10/127", "10.0.0.200"], "ranges": [{"subnet": "10.0.0.0/24", "rangeStart": "10.0.0.9"}, {"subnet": "fd00::/64"}]}`)
	for f, want := range map[Family]string{IPv4: "10.0.0.0 false,10.0.0.1 false,10.0.0.2 true,10.0.0.3 true,10.0.0.200 true", IPv6: "fd00::10 true,fd00::11 true"} {
		var got []string
		for a := range c.ReservedOf(f) {
			got = append(got, fmt.Sprint(a, " ", c.IsReserved(a)))
		}
		if strings.Join(got, ",") != want {
			t.Errorf("reserved are %v, want %s", got, want)
		}
	}
}
