// Copyright (c) the allocnet authors
// SPDX-License-Identifier: MPL-2.0

package ipam

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// TestFlatContent: what the store has of a flat pool is what earlier versions wrote.
func TestFlatContent(t *testing.T) {
	const want = `{"version":1,"checksum":"0b78b480fcd86505","content":{"pool":"p",` +
		`"ranges":[{"subnet":"10.0.0.0/24","start":"10.0.0.1","end":"10.0.0.254","gateway":"10.0.0.1"}],"blockSize":{"ipv4":26,"ipv6":122}}}`
	for _, mode := range []string{``, `"mode": "flat", `} {
		c := mustParse(t, `{"pool": "p", `+mode+`"ranges": [{"subnet": "10.0.0.0/24"}]}`)
		if got := string(Encode(c.Content())); got != want || c.Mode != ModeFlat {
			t.Errorf("with %q the mode is %s, and stored is\n     %s\nwant %s", mode, c.Mode, got, want)
		}
	}
}

// TestModes: hosts agree on the mode and on the VXLAN, whether they write the defaults or not.
func TestModes(t *testing.T) {
	const ranges = `"ranges": [{"subnet": "10.0.0.0/24"}, {"subnet": "fd00::/64"}]`
	hashes := map[string]string{}
	for _, test := range []struct {
		keys, mode string
		vxlan      VXLAN
	}{
		{``, "flat", VXLAN{}},
		{`"mode": "routed", `, "routed", VXLAN{}},
		{`"mode": "vxlan", `, "vxlan", VXLAN{1347049, 4789}},
		{`"mode": "vxlan", "vxlan": {"id": 1347049, "port": 4789}, `, "vxlan", VXLAN{1347049, 4789}},
		{`"mode": "vxlan", "vxlan": {"id": 1}, `, "vxlan", VXLAN{1, 4789}},
		{`"mode": "vxlan", "vxlan": {"id": 1, "port": 8472}, `, "vxlan", VXLAN{1, 8472}},
		{`"mode": "auto", `, "auto", VXLAN{1347049, 4789}},
	} {
		c := mustParse(t, `{"pool": "p", `+test.keys+ranges+`}`)
		if c.Mode.String() != test.mode || c.VXLAN != test.vxlan {
			t.Errorf("%s is the mode %s with %+v, want %s with %+v", test.keys, c.Mode, c.VXLAN, test.mode, test.vxlan)
		}
		meaning := fmt.Sprint(test.mode, test.vxlan)
		if same, ok := hashes[c.Hash()]; ok && same != meaning {
			t.Errorf("%s has the hash of %s", meaning, same)
		}
		hashes[c.Hash()] = meaning
		stored, err := DecodePool(Encode(c.Content()), "p")
		if err != nil || stored.Mode != c.Mode || stored.VXLAN != c.VXLAN || stored.Hash() != c.Hash() {
			t.Errorf("%s is stored as %s, %v", test.keys, stored, err)
		}
	}
	if len(hashes) != 6 {
		t.Errorf("there are %d hashes, want 6: %v", len(hashes), hashes)
	}
}

// TestModeIsNotAppended: a host with further ranges does not change the mode with them.
func TestModeIsNotAppended(t *testing.T) {
	flat := mustParse(t, `{"pool": "p", "ranges": [{"subnet": "10.0.0.0/24", "rangeEnd": "10.0.0.127"}]}`).Content()
	more := `"ranges": [{"subnet": "10.0.0.0/24", "rangeEnd": "10.0.0.127"}, {"subnet": "10.0.0.0/24", "rangeStart": "10.0.0.128"}]`
	if !mustParse(t, `{"pool": "p", `+more+`}`).Content().Extends(flat) {
		t.Error("a range cannot be appended")
	}
	if mustParse(t, `{"pool": "p", "mode": "routed", `+more+`}`).Content().Extends(flat) {
		t.Error("a routed pool extends a flat one")
	}
}

// TestModeErrors: each names the field, its value, and what would be right.
func TestModeErrors(t *testing.T) {
	const subnet = `"ranges": [{"subnet": "10.0.0.0/24"}]`
	for config, want := range map[string]string{
		`"mode": "", ` + subnet:                                                                                            `mode is "": want one of flat, routed, vxlan and auto`,
		`"mode": "bridged", ` + subnet:                                                                                     `mode is "bridged": want one of flat, routed, vxlan and auto`,
		`"vxlan": {"id": 3}, ` + subnet:                                                                                    `vxlan is "{ID:3 Port:0}": want it with the mode vxlan or auto only; the mode is flat`,
		`"mode": "routed", "vxlan": {"port": 4789}, ` + subnet:                                                             `the mode is routed`,
		`"mode": "vxlan", "vxlan": {"id": 16777216}, ` + subnet:                                                            `vxlan.id is "16777216": want 1 to 16777215`,
		`"mode": "vxlan", "vxlan": {"id": -1}, ` + subnet:                                                                  `vxlan.id is "-1": want 1 to`,
		`"mode": "auto", "vxlan": {"port": 65536}, ` + subnet:                                                              `vxlan.port is "65536": want 1 to 65535, or none for 4789`,
		`"mode": "auto", "vxlan": {"ports": 1}, ` + subnet:                                                                 `unknown field "ports"`,
		`"mode": "routed", "probe": "eth0", ` + subnet:                                                                     `probe is "eth0": want none with the mode routed`,
		`"mode": "routed", "reserved": ["10.0.0.16/28", "10.0.0.40"], ` + subnet:                                           `reserved is "10.0.0.16/28 10.0.0.40/32": want none with the mode routed`,
		`"mode": "routed", "sticky": true, ` + subnet:                                                                      `sticky is "true": want false with the mode routed`,
		`"mode": "routed", "ranges": [{"subnet": "10.0.0.0/31"}]`:                                                          `ranges[0].subnet is "10.0.0.0/31": want at most /30 with the mode routed`,
		`"mode": "routed", "ranges": [{"subnet": "0.0.0.0/0"}]`:                                                            `ranges[0].subnet is "0.0.0.0/0": want no address of 0.0.0.0/8 with the mode routed`,
		`"mode": "auto", "ranges": [{"subnet": "169.254.169.0/24"}]`:                                                       `want no address of 169.254.0.0/16`,
		`"mode": "vxlan", "ranges": [{"subnet": "fe80::/64"}]`:                                                             `want no address of fe80::/10`,
		`"mode": "routed", "ranges": [{"subnet": "8.0.0.0/7", "gateway": "8.0.0.1"}]`:                                      `ranges[0].subnet is "8.0.0.0/7": want at least /8`,
		`"mode": "routed", "ranges": [{"subnet": "2000::/3"}]`:                                                             `ranges[0].subnet is "2000::/3": want at least /32`,
		`"mode": "routed", "ranges": [{"subnet": "fd00::/127"}]`:                                                           `ranges[0].subnet is "fd00::/127": want at most /126`,
		`"mode": "routed", ` + `"ranges": [{"subnet": "fd00::/64"}, {"subnet": "10.0.0.0/24"}, {"subnet": "10.0.1.0/24"}]`: `ranges[2].subnet is "10.0.1.0/24": want 10.0.0.0/24 with the mode routed, as ranges[1] has`,
		`"mode": "routed", "ranges": [{"subnet": "10.0.0.0/24", "gateway": "10.0.1.1"}]`:                                   `ranges[0].gateway is "10.0.1.1": want the address of a host in 10.0.0.0/24`,
		`"mode": "routed", "ranges": [{"subnet": "10.0.0.0/24", "gateway": "10.0.0.255"}]`:                                 `ranges[0].gateway is "10.0.0.255"`,
		`"mode": "routed", "ranges": [{"subnet": "10.0.0.0/24", "rangeEnd": "10.0.0.99"}, {"subnet": "10.0.0.0/24", "rangeStart": "10.0.0.100", "gateway": "10.0.0.254"}]`: `ranges[1].gateway is "10.0.0.254": want 10.0.0.1 with the mode routed, as ranges[0] has`,
		`"mode": "routed", "ranges": [{"subnet": "fd00::/64", "rangeStart": "fd00::2"}]`:                                                                                   `ranges[0] is "fd00::2-fd00::ffff:ffff:ffff:ffff": want no address of fd00::/68, around the gateway`,
	} {
		_, err := Parse([]byte(`{"pool": "p", ` + config + `}`))
		if !errors.Is(err, ErrInvalid) || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%s\n got %v\nwant %s", config, err, want)
		}
	}
}

// TestStoredModes: a configuration that another host has stored is held to the same rules.
func TestStoredModes(t *testing.T) {
	content := mustParse(t, `{"pool": "p", "mode": "vxlan", "ranges": [{"subnet": "10.0.0.0/24"}]}`).Content()
	for want, change := range map[string]func(*PoolContent){
		`mode is "flat"`:   func(p *PoolContent) { p.Mode = "flat" },
		`vxlan.id is "-4"`: func(p *PoolContent) { p.VXLAN.ID = -4 },
		`vxlan is "{ID:`:   func(p *PoolContent) { p.Mode = ModeRouted },
		`reserved is "10.0.0.`: func(p *PoolContent) {
			p.Reserved = mustParse(t, `{"pool": "p", "reserved": ["10.0.0.4"], "ranges": [{"subnet": "10.0.0.0/24"}]}`).Reserved
		},
	} {
		changed := content
		change(&changed)
		if _, err := DecodePool(Encode(changed), "p"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want %s", err, want)
		}
	}
}

// TestSubnets: each once.
func TestSubnets(t *testing.T) {
	c := mustParse(t, `{"pool": "p", "ranges": [{"subnet": "10.0.0.0/24", "rangeEnd": "10.0.0.9"}, {"subnet": "fd00::/64"}, {"subnet": "10.0.0.0/24", "rangeStart": "10.0.0.40"}]}`)
	if got := fmt.Sprint(c.Subnets()); got != "[10.0.0.0/24 fd00::/64]" {
		t.Errorf("the subnets are %s", got)
	}
}
